//! Names that lead to what came while the scan went on.
//!
//! The head of a linked list moves: by the time its name is read, it leads to an object that was not there when objects were
//! counted, and nothing that is known leads to the others. They are no garbage then. But what a loop is working on is always
//! something that came meanwhile: a name is told only where it leads on, by way of that, to what nothing else leads to.

use crate::attributes;
use crate::climb::{Ground, object_at};
use crate::edges::Cursors;
use crate::frames::Running;
use crate::frontier::Frontier;
use crate::index::{CACHED, FREE, Slot, object_of};
use crate::links::{Lead, unmarked};
use crate::names::{self, DICT_KEYS, Table};
use crate::path::Namer;
use crate::reader::{Window, plausible};
use crate::tree::{Tree, namespaces};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Names of one module, and instances of classes that names lead to, that are looked at.
const MOST_NAMES: u64 = 4096;
const MOST_INSTANCES: usize = 4096;
/// Of an object that led to more than this it is not told whether it does still: what moves is small.
const MOST_LED_TO: usize = 4096;
/// Blocks that are gone on from, all together: such as came meanwhile, and such as were there.
const MOST_NEW: usize = 1 << 16;
const MOST_OLD: usize = 1 << 14;
/// Bytes that are looked at of one that was there, and of one that came, of which the size is not known.
const LONGEST: u64 = 64 << 10;
const UNKNOWN: u64 = 512;
/// The part of what hangs on nothing that a name has to lead to: as large as what is told beside a holder.
const PART: usize = 5;

/// A type most of whose samples no name leads to.
pub(crate) struct Unheld {
    /// Several types can have one name.
    pub(crate) kinds: Vec<u32>,
    /// Those samples.
    pub(crate) samples: Vec<u32>,
}

/// What came meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum New {
    /// An object of this type.
    Object(u32),
    /// It lies on a page that was not there before: it is not read.
    Unread,
}

/// For each of some types the first name that leads to an object which came meanwhile, directly or by an attribute, and so perhaps
/// to the type's samples: to one that was not there, or one of those types that has been put where another one was.
pub(crate) fn newer(ground: &Ground<'_, '_>, tree: &Tree<'_>, unheld: &[Unheld]) -> Vec<Option<String>> {
    let mut search = Search::new(ground, tree, unheld);
    if !unheld.is_empty() {
        ground.reader.refresh();
        namespaces(ground, |dict| search.module(dict));
        search.locals();
    }
    search.names
}

struct Search<'k, 'a, 'b> {
    ground: &'k Ground<'a, 'b>,
    tree: &'k Tree<'k>,
    unheld: &'k [Unheld],
    /// What was found for each of them.
    names: Vec<Option<String>>,
    kinds: FxHashSet<u32>,
    /// Where reading ends.
    limit: u64,
    instances: usize,
    /// Whether blocks are not what they were.
    others: FxHashMap<u32, Option<bool>>,
    window: Window,
    /// Where blocks begin that were gone on from, and how many more may be.
    walked: FxHashSet<u64>,
    new: usize,
    old: usize,
    /// Blocks that one of the names leads to, and those of them that are to be gone on from by what they led to when they were read.
    passed: Frontier,
    next: Frontier,
}

impl<'k, 'a, 'b> Search<'k, 'a, 'b> {
    fn new(ground: &'k Ground<'a, 'b>, tree: &'k Tree<'k>, unheld: &'k [Unheld]) -> Self {
        let [passed, next] = [(); 2].map(|()| Frontier::new(ground.index.slots()));
        Self {
            ground,
            tree,
            unheld,
            names: vec![None; unheld.len()],
            kinds: unheld.iter().flat_map(|unheld| &unheld.kinds).copied().collect(),
            limit: ground.limit(),
            instances: MOST_INSTANCES,
            others: FxHashMap::default(),
            window: Window::for_scattered(LONGEST as usize),
            walked: FxHashSet::default(),
            new: MOST_NEW,
            old: MOST_OLD,
            passed,
            next,
        }
    }

    /// Whether there is something left to look for, and time to.
    fn goes_on(&self) -> bool {
        self.ground.reader.effort() < self.limit && self.names.iter().any(Option::is_none)
    }

    /// The names of a module, whose namespace is a dict.
    fn module(&mut self, dict: u64) {
        let (reader, version) = (self.ground.reader, self.ground.types.version);
        let keys = dict.checked_add(DICT_KEYS).filter(|_| self.goes_on()).and_then(|at| reader.word(at));
        let Some(table) = keys.and_then(|keys| Table::read(reader, version, keys)) else { return };
        for number in 0..table.count.min(MOST_NAMES) {
            let Some((key, value)) = table.entry(reader, number).filter(|_| self.goes_on()) else { return };
            let name = || {
                let module = names::text_in_dict(reader, version, dict, "__name__")?;
                Some(format!("global {} of module {module}", names::text(reader, version, key)?))
            };
            self.object(value, name);
            for value in self.attributes(value) {
                self.object(value, name);
            }
        }
    }

    fn locals(&mut self) {
        let ground = self.ground;
        if self.goes_on() {
            Running::find(ground).locals(ground, |local, stored| {
                if self.goes_on() {
                    self.object(stored, || Namer { ground }.local(local, 0).map(|top| top.name));
                }
            });
        }
    }

    /// The attributes of an instance of a class.
    fn attributes(&mut self, at: u64) -> Vec<u64> {
        let ground = self.ground;
        let slot = if plausible(at) { ground.index.find(at) } else { None };
        let typed = slot.and_then(|slot| {
            let found = ground.types.get(object_of(ground.index.tag(slot.id))?)?;
            (found.is_heap_type() && object_at(ground, slot, found) == at).then_some(found)
        });
        let Some(found) = typed.filter(|_| self.instances > 0) else { return Vec::new() };
        self.instances -= 1;
        attributes::all(ground, found, at).into_iter().map(|(_, value)| value).collect()
    }

    /// What a name leads to: if that came meanwhile, and leads on to what is looked for, it is told for those types.
    fn object(&mut self, address: u64, name: impl Fn() -> Option<String>) {
        let Some(new) = self.came(address) else { return };
        let before = self.held();
        // What could not be gone over may lead there: so may what code in C keeps its records in, which moves all the time.
        let whole = matches!(new, New::Object(kind) if !self.has_records(kind)) && self.walk(address);
        self.spread();
        let now = self.held();
        for at in 0..self.unheld.len() {
            let held = now[at] - before[at];
            let leads = held > 0 && held * PART >= self.unheld[at].samples.len();
            if (leads || !whole) && self.names[at].is_none() {
                self.names[at] = name();
            }
        }
    }

    /// Whether objects of a type have memory that is neither a table nor small.
    fn has_records(&self, kind: u32) -> bool {
        let Ground { types, links, .. } = *self.ground;
        let table = links.get(kind).is_some_and(Lead::is_container);
        types.get(kind).is_some_and(|found| !table && found.owned > found.small)
    }

    /// How many samples of each type a name was found to lead to.
    fn held(&self) -> Vec<usize> {
        let held = |unheld: &Unheld| unheld.samples.iter().filter(|id| self.passed.contains(**id)).count();
        self.unheld.iter().map(held).collect()
    }

    /// What is at an address, if it was not there when blocks were counted, or is one of the types that are looked for and
    /// not the one that was: allocators hand out again what was given back last, so the next object of its kind lies where the one
    /// before it did.
    fn came(&mut self, address: u64) -> Option<New> {
        if !plausible(address) {
            return None;
        }
        let Ground { index, reader, types, links, .. } = *self.ground;
        let found = index.find(address);
        if let Some(slot) = found
            && let Some(kind) = object_of(index.tag(slot.id)).filter(|kind| self.kinds.contains(kind))
        {
            return (self.is_another(slot) == Some(true)).then_some(New::Object(kind));
        }
        if !self.is_new(address, found) {
            return None;
        }
        let Some(of) = reader.word(address + 8) else { return Some(New::Unread) };
        let kind = types.all.iter().position(|found| found.address == of)? as u32;
        // A counter is a new number each time that it is looked at.
        links.get(kind).is_some_and(|lead| lead.holds && !lead.is_leaf()).then_some(New::Object(kind))
    }

    /// Whether what is at an address lies in a block that was free, or where nothing was resident. Memory of no allocator, and what
    /// came with a file, was not counted at all.
    fn is_new(&self, address: u64, found: Option<Slot>) -> bool {
        let ground = self.ground;
        let within = |ranges: &[(u64, u64)]| ranges.iter().any(|range| (range.0..range.1).contains(&address));
        match found {
            Some(slot) => [FREE, CACHED].contains(&ground.index.tag(slot.id)),
            None => {
                let mappings = ground.reader.memory().mappings();
                let map = mappings.get(mappings.partition_point(|map| map.end <= address));
                let of_file = map.is_some_and(|map| map.inode != 0 && map.start <= address);
                ground.resident.within(address, address + 8) == 0 && !of_file && !within(ground.outside)
            }
        }
    }

    /// Whether a block no longer leads to what it led to when it was read; nothing where that was nowhere that matters.
    fn is_another(&mut self, slot: Slot) -> Option<bool> {
        if let Some(known) = self.others.get(&slot.id) {
            return *known;
        }
        let ground = self.ground;
        let mut before = FxHashSet::default();
        self.tree.below(ground, slot.id, &mut Cursors::default(), |target| {
            if before.len() <= MOST_LED_TO {
                before.insert(target);
            }
        });
        let mut another = Some(false).filter(|_| !before.is_empty());
        if (1..=MOST_LED_TO).contains(&before.len()) {
            self.window.words(ground.reader, (slot.start, slot.end), |_, stored| {
                if let Some(block) = ground.index.find(unmarked(stored)) {
                    before.remove(&block.id);
                }
            });
            another = Some(!before.is_empty());
        }
        self.others.insert(slot.id, another);
        another
    }

    /// Goes from an object, by the words that are there now, through what came meanwhile and what need not be what it was, to the
    /// first blocks that are. Says whether it could be read and came to an end.
    fn walk(&mut self, address: u64) -> bool {
        let ground = self.ground;
        let mut left = VecDeque::from([address]);
        let mut met = Vec::new();
        // It may lie where nothing was mapped before.
        ground.reader.memory().renew(address);
        while let Some(at) = left.pop_front() {
            let range = self.range(at);
            if !self.walked.insert(range.0) {
                continue;
            }
            let mut there = false;
            self.window.words(ground.reader, range, |_, stored| {
                there = true;
                let stored = unmarked(stored);
                met.extend(Some(stored).filter(|_| plausible(stored)));
            });
            for to in met.drain(..) {
                if self.is_new(to, ground.index.find(to)) {
                    if self.new == 0 {
                        return false;
                    }
                    self.new -= 1;
                    left.push_back(to);
                } else if let Some(slot) = ground.links.target(ground.index, to).filter(|_| self.old > 0) {
                    left.extend(Some(to).filter(|_| self.old(slot)));
                }
            }
            if at == address && !there || ground.reader.effort() >= self.limit {
                return false;
            }
        }
        true
    }

    /// Where the words of a block are that is gone on from.
    fn range(&self, at: u64) -> (u64, u64) {
        let ground = self.ground;
        match ground.index.find(at) {
            Some(slot) if slot.end - slot.start <= UNKNOWN || !self.is_new(at, Some(slot)) => {
                (slot.start, slot.end.min(slot.start + LONGEST))
            }
            Some(slot) => (at, slot.end.min(at + UNKNOWN)),
            None => (at, at + UNKNOWN),
        }
    }

    /// A word leads to a block that was there before. Says whether it is gone on from by the words that are there now; by what it led
    /// to then it is where it is what it was.
    fn old(&mut self, slot: Slot) -> bool {
        let ground = self.ground;
        let named = self.tree.is_named(slot.id);
        let lead = object_of(ground.index.tag(slot.id)).map(|kind| ground.links.get(kind));
        if lead.is_some_and(|lead| lead.is_none_or(Lead::is_leaf)) {
            // It may be a sample.
            self.passed.insert(slot.id);
            return false;
        }
        self.old -= 1;
        let another = self.is_another(slot) != Some(false);
        if !named && !another && !self.passed.contains(slot.id) {
            self.passed.insert(slot.id);
            self.next.insert(slot.id);
        }
        another
    }

    /// Goes on from blocks that are as they were to all that they led to, but for what other names lead to.
    fn spread(&mut self) {
        let Self { ground, tree, passed, next, .. } = self;
        let mut cursors = Cursors::default();
        let mut spare = Frontier::new(ground.index.slots());
        while !next.is_empty() {
            std::mem::swap(next, &mut spare);
            spare.drain(|id| {
                tree.below(ground, id, &mut cursors, |below| {
                    if !passed.contains(below) && !tree.is_named(below) {
                        passed.insert(below);
                        next.insert(below);
                    }
                });
            });
        }
    }
}
