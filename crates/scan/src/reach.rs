//! What a container holds: itself, and what would go with it.
//!
//! To follow every word that looks like a pointer finds the whole program sooner or later: through a key that is a weight of
//! the model, through an object that knows its trainer, through a word that was left from before. So an object that leads to
//! others is taken in only when all references to it (it counts them itself) were seen to come from what is taken in already.
//! Text and numbers lead nowhere and are counted wherever they are reached. What is held by others as well, or by itself in a
//! cycle, stays outside, and then the sum is a least one.

use crate::claims::place;
use crate::climb::{Ground, object_at};
use crate::index::{FREE, Slot, object_of, owner_of};
use crate::links::{HEAD, Lead, Role, unmarked};
use crate::names::DICT_VALUES;
use crate::natives::Place;
use crate::reader::{Window, plausible, word};
use crate::types::{Family, Type};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many blocks are read at once.
const TOGETHER: usize = 64;
/// Bytes of a block that is no object and is followed; larger ones are data.
const LARGEST_READ: u64 = 64 << 10;
/// Bytes of a block whose pages are kept a while, because others on them may come soon.
const SMALL: u64 = 2 << 10;
/// Bytes of an instance's values, at most.
const MOST_VALUES: usize = 320;
/// References that are put together before they are looked up.
const MOST_MET: usize = 1 << 16;
/// Objects that are remembered because not all references to them were seen yet.
const MOST_WAITING: usize = 1 << 18;
/// Entries of a deque's block, and bytes of that.
const DEQUE_BLOCK: u64 = 64;
const DEQUE_BYTES: u64 = (DEQUE_BLOCK + 2) * 8;

/// What was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Resident bytes, and those that are not.
    pub(crate) bytes: u64,
    pub(crate) absent: u64,
    /// Whether more was met that others hold as well, or that was not followed.
    pub(crate) at_least: bool,
    /// Whether there was no budget to follow all of it, or some of it came since its blocks were counted.
    pub(crate) cut: bool,
}

/// References to an object: how many there are, and how many of them were seen.
#[derive(Clone, Copy, Debug, Default)]
struct References {
    all: u64,
    seen: u64,
}

/// What was taken in so far: what several containers lead to counts for the first of them.
pub(crate) struct Reach<'a, 'b, 'c> {
    ground: &'c Ground<'a, 'b>,
    /// Blocks that may still be followed, and what reading may have cost by then.
    left: usize,
    limit: u64,
    bytes: u64,
    absent: u64,
    taken: Numbers,
    /// Objects that lead somewhere and that others may refer to as well.
    references: FxHashMap<u32, References>,
    /// Objects that the blocks of this level refer to, once for each time, and other blocks that belong to those.
    met: Vec<Slot>,
    next: Vec<Slot>,
    /// Whether there was no room to follow or to remember all of them.
    full: bool,
    /// Objects of tables that nobody knows.
    aside: FxHashSet<u32>,
    /// Whether an entry of a container is no object that is known.
    missed: bool,
    window: Option<Window>,
}

impl<'a, 'b, 'c> Reach<'a, 'b, 'c> {
    /// About `most` blocks are followed, as long as reading has not reached `limit`.
    pub(crate) fn new(ground: &'c Ground<'a, 'b>, most: usize, limit: u64) -> Self {
        Self {
            ground,
            left: most,
            limit,
            bytes: 0,
            absent: 0,
            taken: Numbers::default(),
            references: FxHashMap::default(),
            met: Vec::new(),
            next: Vec::new(),
            full: false,
            aside: FxHashSet::default(),
            missed: false,
            window: None,
        }
    }

    /// Takes in a container or its parts, and what the objects and the native memory behind it take, the nearest first.
    pub(crate) fn take_in(&mut self, from: Vec<Slot>) -> Reached {
        let (before, absent_before, mut cut) = (self.bytes, self.absent, false);
        (self.missed, self.full) = (false, false);
        self.references.clear();
        self.aside.clear();
        let mut level: Vec<Slot> = from.into_iter().filter(|slot| self.taken.insert(slot.id)).collect();
        while !level.is_empty() {
            level.sort_unstable_by_key(|slot| slot.start);
            for some in level.chunks(TOGETHER) {
                some.iter().for_each(|slot| self.count_in(*slot));
                let leading: Vec<Slot> = some.iter().copied().filter(|slot| self.leads(*slot)).collect();
                let enough = leading.len() <= self.left && self.ground.reader.effort() <= self.limit;
                cut |= !enough && !leading.is_empty();
                if !cut {
                    self.left -= leading.len();
                    self.ground.reader.prepare(leading.iter().map(|slot| slot.start));
                    leading.into_iter().for_each(|slot| self.follow(slot));
                }
            }
            self.settle();
            level = std::mem::take(&mut self.next);
        }
        let cut = cut || self.missed || self.full;
        let (bytes, absent) = (self.bytes - before, self.absent - absent_before);
        Reached { bytes, absent, at_least: cut || !self.is_whole(), cut }
    }

    fn count_in(&mut self, slot: Slot) {
        let (here, absent) = self.ground.resident(slot);
        self.bytes += here;
        self.absent += absent;
    }

    fn type_of(&self, slot: Slot) -> Option<(u32, &Type)> {
        let kind = object_of(self.ground.index.tag(slot.id))?;
        Some((kind, self.ground.types.get(kind)?))
    }

    fn lead(&self, slot: Slot) -> Option<&Lead> {
        object_of(self.ground.index.tag(slot.id)).and_then(|kind| self.ground.links.get(kind))
    }

    fn leads(&self, slot: Slot) -> bool {
        match self.lead(slot) {
            Some(lead) => lead.holds && !lead.is_leaf(),
            None => slot.end - slot.start <= LARGEST_READ,
        }
    }

    /// Takes note of what a block leads to.
    fn follow(&mut self, slot: Slot) {
        match (self.lead(slot).copied(), owner_of(self.ground.index.tag(slot.id))) {
            (Some(lead), _) => self.object(slot, &lead),
            (None, Some(kind)) => self.native(slot, kind),
            (None, None) => {}
        }
    }

    fn object(&mut self, slot: Slot, lead: &Lead) {
        let Some((kind, found)) = self.type_of(slot) else { return };
        let (at, other) = (object_at(self.ground, slot, found), found.family() == Family::Other);
        if lead.is_container() {
            self.container(slot, lead, at);
        } else if let Some(deque) = Deque::at(self.ground, at).filter(|_| other) {
            return self.deque(deque);
        }
        let count = lead.count_at().and_then(|at| self.ground.reader.word(slot.start + at));
        let last = count.map_or(slot.end, |count| lead.end(slot, count));
        for part in lead.parts() {
            let (start, end) = self.ground.links.place(part, slot);
            // Where a container has its entries is known already.
            let role = if lead.is_container() && start >= at { part.role.without_table() } else { part.role };
            self.each((start, end.min(last)), |reach, stored| reach.word(stored, role, kind));
        }
    }

    /// The table of a list, a dict or a set.
    fn container(&mut self, slot: Slot, lead: &Lead, at: u64) {
        let mut head = [0; HEAD];
        let need = HEAD.min(slot.end.saturating_sub(at) as usize);
        if !self.ground.reader.cached(at, &mut head[..need]) {
            return;
        }
        let values = word(&head, DICT_VALUES as usize);
        if lead.is_dict() && values != 0 {
            // The names belong to a class.
            return self.values(unmarked(values));
        }
        if let Some((table, entries)) = self.ground.links.table_now(self.ground.reader, &head, (slot, lead)) {
            self.take(table);
            let hashes = self.ground.links.hashes_now(self.ground.reader, lead, table);
            let is_hash = |at: u64| hashes.is_some_and(|hashes| hashes.is_at(at - entries.0));
            self.each_at(entries, |reach, at, stored| {
                if !is_hash(at) {
                    reach.entry(stored);
                }
            });
        }
    }

    /// The values of an instance.
    fn values(&mut self, at: u64) {
        let Some(slot) = self.take(at) else { return };
        let mut block = [0; MOST_VALUES];
        let length = block.len().min((slot.end - slot.start) as usize);
        let read = self.ground.reader.cached(slot.start, &mut block[..length]);
        let values = self.ground.links.values(&block[..length]).filter(|_| read).unwrap_or((0, length));
        let (begin, end) = (slot.start + values.0 as u64, slot.start + values.1 as u64);
        self.each((begin.next_multiple_of(8), end & !7), Self::refer);
    }

    fn deque(&mut self, deque: Deque) {
        let (mut block, mut first, mut left) = (deque.first, deque.left, deque.length);
        while left > 0
            && let Some(slot) = self.take(block)
            && slot.end >= block + DEQUE_BYTES
        {
            let count = left.min(DEQUE_BLOCK - first);
            let entries = block + 8 + first * 8;
            self.each((entries, entries + count * 8), Self::entry);
            (first, left) = (0, left - count);
            block = self.ground.reader.word(block + DEQUE_BYTES - 8).unwrap_or(0);
        }
    }

    /// A native record of an object of type `kind`. Whether it holds the objects it leads to is not known; where most of its
    /// words lead to some, it may be a table of them.
    fn native(&mut self, slot: Slot, kind: u32) {
        let (mut words, mut objects) = (0, Vec::new());
        self.each((slot.start, slot.end & !7), |reach, stored| {
            words += 1;
            let Some(below) = reach.below(stored) else { return };
            match object_of(reach.ground.index.tag(below.id)) {
                Some(_) => objects.extend(reach.begins(below, stored).then_some(below.id)),
                // To the inside leads a word that is left from before.
                None if reach.leads_to(below, stored) => reach.owned(below, kind),
                None => {}
            }
        });
        if objects.len() * 2 > words {
            self.aside.extend(objects);
        }
    }

    /// A word of an object of type `kind`.
    fn word(&mut self, stored: u64, role: Role, kind: u32) {
        let Some(below) = self.below(unmarked(stored)) else { return };
        match (object_of(self.ground.index.tag(below.id)), role) {
            (Some(_), _) => self.refer(unmarked(stored)),
            (None, Role::Table) => self.values(unmarked(stored)),
            (None, Role::Any) => self.owned(below, kind),
            (None, Role::Entries) => {}
        }
    }

    /// A block that is no object belongs to those that own it.
    fn owned(&mut self, slot: Slot, kind: u32) {
        if owner_of(self.ground.index.tag(slot.id)) == Some(kind) && self.taken.insert(slot.id) {
            self.goes_on(slot);
        }
    }

    /// A block that was taken in belongs to the next level, unless it leads nowhere: then it is counted at once.
    fn goes_on(&mut self, slot: Slot) {
        let leads = self.leads(slot);
        if leads && self.next.len() <= self.left {
            self.next.push(slot);
        } else {
            self.full |= leads;
            self.count_in(slot);
        }
    }

    /// Counts a block that is no object and is not followed in the usual way.
    fn take(&mut self, address: u64) -> Option<Slot> {
        let slot = self.below(address).filter(|slot| object_of(self.ground.index.tag(slot.id)).is_none())?;
        let new = self.taken.insert(slot.id);
        new.then(|| self.count_in(slot));
        new.then_some(slot)
    }

    /// An entry of a container: an object, or none that was there when blocks were counted.
    fn entry(&mut self, stored: u64) {
        let found = if plausible(stored) { self.ground.index.find(stored) } else { None };
        self.missed |= found.is_some_and(|slot| object_of(self.ground.index.tag(slot.id)).is_none());
        self.refer(stored);
    }

    /// A reference to an object.
    fn refer(&mut self, stored: u64) {
        let below = self.below(unmarked(stored)).filter(|below| !self.taken.contains(below.id));
        let Some(object) = below.filter(|below| self.begins(*below, unmarked(stored))) else { return };
        if self.leads(object) {
            self.met.push(object);
            if self.met.len() == MOST_MET {
                self.settle();
            }
        } else if self.taken.insert(object.id) {
            self.count_in(object);
        }
    }

    fn begins(&self, slot: Slot, address: u64) -> bool {
        self.type_of(slot).is_some_and(|(_, found)| object_at(self.ground, slot, found) == address)
    }

    /// Whether an address is where a native block begins.
    fn leads_to(&self, slot: Slot, address: u64) -> bool {
        place((self.ground.index, self.ground.types), (slot.id, slot.start), address) == Place::Begin
    }

    /// The block that an address is in.
    fn below(&self, address: u64) -> Option<Slot> {
        let below = if plausible(address) { self.ground.index.find(address) } else { None };
        below.filter(|below| self.ground.index.tag(below.id) != FREE)
    }

    /// Looks up what was met: the objects of which all references were seen go on.
    fn settle(&mut self) {
        let mut met = std::mem::take(&mut self.met);
        met.sort_unstable_by_key(|slot| slot.start);
        for some in met.chunk_by(|one, next| one.id == next.id).collect::<Vec<_>>().chunks(TOGETHER) {
            let unknown =
                some.iter().map(|same| same[0]).filter(|slot| !self.references.contains_key(&slot.id));
            self.ground.reader.prepare(unknown.map(|slot| slot.start));
            for same in some {
                self.seen(same[0], same.len() as u64);
            }
        }
        met.clear();
        self.met = met;
    }

    /// So many more references to an object were seen.
    fn seen(&mut self, slot: Slot, more: u64) {
        let is_text = self.type_of(slot).is_some_and(|(_, found)| found.is_plain_text());
        let before = self.references.get(&slot.id).copied();
        let References { all, seen } = before.unwrap_or_else(|| {
            let all = if is_text { 0 } else { self.count(slot) };
            References { all, seen: 0 }
        });
        let seen = seen + more;
        if seen >= all {
            self.references.remove(&slot.id);
            if self.taken.insert(slot.id) {
                self.goes_on(slot);
            }
        } else if before.is_some() || self.references.len() < MOST_WAITING {
            self.references.insert(slot.id, References { all, seen });
        } else {
            self.full = true;
        }
    }

    /// How many references there are to an object.
    fn count(&self, slot: Slot) -> u64 {
        let at = self.type_of(slot).map(|(_, found)| object_at(self.ground, slot, found));
        let stored = at.and_then(|at| self.ground.reader.word(at));
        stored.map_or(u64::MAX, |stored| self.ground.types.version.references(stored))
    }

    /// Whether nothing stayed outside but what belongs to the program: classes, code and modules.
    fn is_whole(&self) -> bool {
        let outside = self.references.keys().chain(&self.aside).filter(|id| !self.taken.contains(**id));
        outside.filter_map(|id| self.ground.types.get(object_of(self.ground.index.tag(*id))?)).all(|found| {
            let program = [self.ground.code_type, self.ground.module_type];
            found.family() == Family::Type || program.contains(&Some(found.address))
        })
    }

    fn each(&mut self, range: (u64, u64), mut each: impl FnMut(&mut Self, u64)) {
        self.each_at(range, |reach, _, stored| each(reach, stored));
    }

    /// Calls `each` with every word of a range and where it is: a small one has its pages in the cache.
    fn each_at(&mut self, (from, to): (u64, u64), mut each: impl FnMut(&mut Self, u64, u64)) {
        let reader = self.ground.reader;
        if from >= to {
        } else if to - from > SMALL {
            let mut window = self.window.take().unwrap_or_else(|| Window::new(64 << 10));
            window.words(reader, (from, to), |at, stored| each(self, at, stored));
            self.window = Some(window);
        } else {
            let mut bytes = [0; SMALL as usize];
            let bytes = &mut bytes[..(to - from) as usize];
            if reader.cached(from, bytes) {
                let words = (from..).step_by(8).zip(bytes.as_chunks().0);
                words.for_each(|(at, word)| each(self, at, u64::from_le_bytes(*word)));
            }
        }
    }
}

/// A set of block numbers. Those that are near each other share their place: a container may hold millions.
#[derive(Debug, Default)]
struct Numbers(FxHashMap<u32, [u64; 8]>);

impl Numbers {
    fn place(number: u32) -> (u32, usize, u64) {
        (number >> 9, (number >> 6 & 7) as usize, 1 << (number & 63))
    }

    /// Whether it was not there before.
    fn insert(&mut self, number: u32) -> bool {
        let (group, word, bit) = Self::place(number);
        let words = self.0.entry(group).or_default();
        let new = words[word] & bit == 0;
        words[word] |= bit;
        new
    }

    fn contains(&self, number: u32) -> bool {
        let (group, word, bit) = Self::place(number);
        self.0.get(&group).is_some_and(|words| words[word] & bit != 0)
    }
}

/// A double-ended queue: how many entries it has, its first block, and where in that it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deque {
    pub(crate) length: u64,
    first: u64,
    left: u64,
}

impl Deque {
    /// A deque has a length, its first and last block of 64 entries, and where it begins and ends in them.
    pub(crate) fn at(ground: &Ground<'_, '_>, at: u64) -> Option<Self> {
        let field = |number: u64| ground.reader.word(at + number * 8).unwrap_or(u64::MAX);
        let is_block = |address: u64| {
            let slot = if plausible(address) { ground.index.find_raw(address) } else { None };
            slot.is_some_and(|slot| slot.start <= address && address + DEQUE_BYTES <= slot.end)
        };
        let (length, left, right) = (field(2), field(5), field(6));
        let (first, last) = (field(3), field(4));
        let fits = is_block(first)
            && is_block(last)
            && left < DEQUE_BLOCK
            && right < DEQUE_BLOCK
            && (first != last || length <= DEQUE_BLOCK);
        fits.then_some(Self { length, first, left })
    }
}
