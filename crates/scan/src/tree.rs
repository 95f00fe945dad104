//! For every block the one above it on a shortest way from a name a person knows.
//!
//! One search in width from the namespaces of all modules, then from the frames of running functions for what is
//! left, until everything that is asked for was met. Each live block is read at most once, however deep the way; three bytes a
//! block remember it.

use crate::above::Above;
use crate::climb::{Ground, object_at};
use crate::frontier::Frontier;
use crate::index::{Near, RAW, Slot, object_of, owner_of};
use crate::names;
use crate::reader::{Window, plausible, word};
use crate::types::{Family, Type, Version};
use rustc_hash::FxHashMap;

/// Raw blocks larger than this are looked through only where they hold pointers.
const WHOLE: u64 = 64 << 10;
/// Entries that are followed of a list whose table is new.
const MOST_ENTRIES: u64 = 1 << 20;
/// Levels of the search: a linked list can be long.
const MOST_LEVELS: usize = 1 << 16;

/// The ways.
pub(crate) struct Tree {
    above: Above,
    /// Where in a frame the block is held directly.
    frames: FxHashMap<u32, u64>,
    /// Whether the budget ended the search.
    pub(crate) cut: bool,
}

impl Tree {
    /// The block above.
    pub(crate) fn above(&self, id: u32) -> Option<u32> {
        self.above.of(id)
    }

    /// The address of the word in a frame that holds the block.
    pub(crate) fn frame(&self, id: u32) -> Option<u64> {
        self.frames.get(&id).copied()
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.above.own_bytes() + self.frames.capacity() as u64 * 16
    }

    /// Searches until the ways to all of `wanted` are known, or everything was looked at.
    pub(crate) fn grow(ground: &Ground<'_, '_>, wanted: Frontier) -> Self {
        let slots = ground.index.slots();
        let mut search = Search {
            ground,
            tree: Self { above: Above::new(slots), frames: FxHashMap::default(), cut: false },
            next: Frontier::new(slots),
            spare: Frontier::new(slots),
            missing: wanted.len(),
            wanted,
            window: Window::new(64 << 10),
            limit: ground.limit(),
        };
        search.modules();
        search.run();
        if search.missing > 0 && !search.tree.cut {
            search.frames();
            search.run();
        }
        search.tree
    }
}

struct Search<'a, 'b, 'c> {
    ground: &'c Ground<'a, 'b>,
    tree: Tree,
    next: Frontier,
    /// An empty one, for the level after.
    spare: Frontier,
    wanted: Frontier,
    /// How many of the wanted were not reached yet.
    missing: u64,
    window: Window,
    limit: u64,
}

impl Search<'_, '_, '_> {
    /// Begins at the namespaces of modules: dicts whose first key is `__name__`.
    fn modules(&mut self) {
        let ground = self.ground;
        let mut window = Window::new(64 << 10);
        ground.index.for_each(|slot, tag, _| {
            let Some(found) = object_of(tag).and_then(|kind| ground.types.get(kind)) else { return };
            let at = object_at(ground, slot, found);
            let dict = if ground.module_type == Some(found.address) {
                window.at(ground.reader, at, 24, u64::MAX).map(|bytes| word(bytes, 16))
            } else {
                Some(at).filter(|_| ground.module_type.is_none() && found.family() == Family::Dict)
            };
            let space = dict.filter(|dict| names::is_namespace(ground.reader, ground.types.version, *dict));
            if let Some(slot) = space.and_then(|dict| ground.index.find(dict)) {
                self.root(slot.id);
            }
        });
    }

    /// Begins at the frames of running functions.
    fn frames(&mut self) {
        let ground = self.ground;
        let mut window = Window::new(64 << 10);
        for range in ground.stacks {
            window.words(ground.reader, *range, |at, stored| {
                if let Some(slot) = target(ground, stored & !3)
                    && !self.tree.above.is_reached(slot.id)
                {
                    self.tree.frames.insert(slot.id, at);
                    self.root(slot.id);
                }
            });
        }
        if ground.frame_type.is_some() && ground.types.version < Version(3, 11) {
            ground.index.for_each(|slot, tag, _| {
                let found = object_of(tag).and_then(|kind| ground.types.get(kind));
                if found.is_some_and(|found| ground.frame_type == Some(found.address)) {
                    self.root(slot.id);
                }
            });
        }
    }

    fn root(&mut self, id: u32) {
        if !self.tree.above.is_reached(id) {
            self.tree.above.set_root(id);
            self.missing -= u64::from(self.wanted.contains(id));
            self.next.insert(id);
        }
    }

    fn run(&mut self) {
        for _ in 0..MOST_LEVELS {
            if self.next.is_empty() || self.missing == 0 {
                return;
            }
            let spare = std::mem::take(&mut self.spare);
            let mut now = std::mem::replace(&mut self.next, spare);
            let (mut from, mut near) = (0, Near::default());
            while let Some(id) = now.take(from) {
                from = id + 1;
                if self.ground.reader.effort() > self.limit {
                    self.tree.cut = true;
                    return;
                }
                if let Some(slot) = self.ground.index.slot_near(id, &mut near) {
                    self.block(slot);
                }
            }
            self.spare = now;
        }
        self.tree.cut = true;
    }

    fn block(&mut self, slot: Slot) {
        let (ground, id) = (self.ground, slot.id);
        for range in holding(ground, &mut self.window, slot).into_iter().flatten() {
            let Self { tree, next, window, wanted, missing, .. } = self;
            window.words(ground.reader, range, |_, stored| {
                if let Some(below) = target(ground, unmarked(stored))
                    && !tree.above.is_reached(below.id)
                {
                    tree.above.set(below.id, id);
                    *missing -= u64::from(wanted.contains(below.id));
                    next.insert(below.id);
                }
            });
        }
    }
}

/// Low bits are marks: 3.12 takes one away from a pointer to values, 3.14 marks what a frame borrows.
pub(crate) fn unmarked(stored: u64) -> u64 {
    if stored & 7 == 7 { stored.wrapping_add(1) } else { stored & !3 }
}

/// The block that a pointer holds: an object where it begins, behind the collector's links; anything else anywhere.
pub(crate) fn target(ground: &Ground<'_, '_>, address: u64) -> Option<Slot> {
    if !plausible(address) || !ground.index.covers(address) {
        return None;
    }
    let slot = ground.index.find(address)?;
    let tag = ground.index.tag(slot.id);
    match object_of(tag).and_then(|kind| ground.types.get(kind)) {
        Some(found) => (object_at(ground, slot, found) == address).then_some(slot),
        None => (tag == RAW || owner_of(tag).is_some()).then_some(slot),
    }
}

/// The parts of a block that can hold others.
pub(crate) fn holding(ground: &Ground<'_, '_>, window: &mut Window, slot: Slot) -> [Option<(u64, u64)>; 3] {
    let tag = ground.index.tag(slot.id);
    if let Some(found) = object_of(tag).and_then(|kind| ground.types.get(kind)) {
        if !holds(ground, found) {
            return [None; 3];
        }
        let new = new_table(ground, window, slot, found);
        let start = slot.start + ground.types.skip() as u64;
        let (head, from, to) = found
            .pointers((slot.end - slot.start).saturating_sub(ground.types.overhead()), ground.types.version);
        return [Some((start, start + head)), Some((start + from, start + to.max(from))), new];
    }
    let worth =
        !ground.barren(slot.id) && (slot.end - slot.start <= WHOLE || pointers_inside(ground, window, slot));
    [worth.then_some((slot.start, slot.end & !7)), None, None]
}

/// The entries of a list whose table is in no block that was seen: the list grew while the scan went on, and a list that
/// grows is the very one that is looked for.
fn new_table(ground: &Ground<'_, '_>, window: &mut Window, slot: Slot, found: &Type) -> Option<(u64, u64)> {
    if found.family() != Family::List {
        return None;
    }
    let bytes = window.at(ground.reader, object_at(ground, slot, found) + 16, 16, u64::MAX)?;
    let (count, table) = (word(bytes, 0).min(MOST_ENTRIES), word(bytes, 8));
    let end = table.checked_add(count * 8).filter(|_| plausible(table) && table.is_multiple_of(8))?;
    let seen = ground.index.find(table).filter(|seen| {
        let tag = ground.index.tag(seen.id);
        (tag == RAW || owner_of(tag).is_some()) && seen.end >= end
    });
    (seen.is_none() && count > 0).then_some((table, end))
}

/// Whether a large block is a table of pointers: at its beginning, or further in where a dict's entries are.
fn pointers_inside(ground: &Ground<'_, '_>, window: &mut Window, slot: Slot) -> bool {
    let length = (slot.end - slot.start) & !7;
    [0, length / 2, length / 8 * 5].iter().any(|offset| {
        let place = (slot.start + offset) & !7;
        let Some(bytes) = window.at(ground.reader, place, 512, slot.end) else { return false };
        let words = (0..64).map(|number| word(bytes, number * 8)).filter(|word| *word != 0);
        let (all, good) =
            words.fold((0, 0), |(all, good), address| (all + 1, good + u32::from(plausible(address))));
        good * 4 > all
    })
}

/// Whether what an object points to lives because of it. A weak reference only looks at it, and code remembers
/// globals it has seen (3.9, 3.10) without holding them.
fn holds(ground: &Ground<'_, '_>, found: &Type) -> bool {
    let is = |kind: Option<u64>| kind.is_some_and(|kind| found.address == kind || found.base == kind);
    !is(ground.weakref_type) && !is(ground.code_type)
}
