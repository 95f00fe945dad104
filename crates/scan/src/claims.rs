//! Who claims a block that is no object, and which claims count more than others.
//!
//! Not every word that looks like a pointer is one: blocks that are used again have words of those before them where nothing
//! was written since. So a claim is as good as the place it comes from. The table of a list or a dict is told by the very field
//! that has it, and its entries are objects: it owns no other block. A word to where a block begins comes before any that only
//! leads inside it, however near the object is that has the latter.

use crate::frontier::Frontier;
use crate::index::{CHUNK_HEAD, Index, RAW, owned_tag, owner_of};
use crate::natives::Place;
use crate::own::Around;
use crate::types::{Type, Types};
use rustc_hash::FxHashMap;

/// What owns a block points to where it begins, or behind the head that is put before an object or a C++ record that is counted.
const BEGINNING: u64 = 16;
/// Blocks of this size can have a mapping of their own, and then what is aligned begins further in.
const LARGE: u64 = 64 << 10;
const PAGE: u64 = 4 << 10;
/// Blocks that only words into their inside led to: more than these are claimed at once.
const MOST_INSIDE: usize = 1 << 20;

/// Blocks that somebody owns and that are still to be read.
#[derive(Default)]
pub(crate) struct Claims {
    /// Claimed at this level.
    pub(crate) next: Frontier,
    /// Tables of containers: their entries are objects and own nothing.
    pub(crate) tables: Frontier,
    /// Blocks that only words into their inside led to so far, and the first type that had one.
    inside: FxHashMap<u32, u32>,
}

impl Claims {
    /// There are more blocks now.
    pub(crate) fn grow(&mut self, slots: usize) {
        self.next.grow(slots);
        self.tables.grow(slots);
    }

    /// An object of type `kind`, or a block that those own, leads to a block.
    #[inline]
    pub(crate) fn claim(&mut self, around: &Around<'_, '_>, (id, place): (u32, Place), kind: u32) {
        if place == Place::Inside && self.inside.len() < MOST_INSIDE {
            if around.index.tag(id) == RAW {
                self.inside.entry(id).or_insert(kind);
            }
        } else if !self.is_table(id) {
            claim(around.index, around.types, &mut self.next, id, kind);
        }
    }

    /// A container of type `kind` has its table in a block.
    #[inline]
    pub(crate) fn table(&mut self, index: &Index, id: u32, kind: u32) {
        if !self.tables.contains(id) {
            self.tables.insert(id);
            index.set_tag(id, owned_tag(kind));
        }
    }

    /// Whether a block is the table of a container.
    #[inline]
    pub(crate) fn is_table(&self, id: u32) -> bool {
        self.tables.contains(id)
    }

    /// Claims what nobody who points to the beginning did. Says whether there was something.
    pub(crate) fn take_inside(&mut self, index: &Index) -> bool {
        let mut left: Vec<(u32, u32)> = self.inside.drain().collect();
        left.retain(|(id, _)| index.tag(*id) == RAW);
        for (id, kind) in left {
            index.set_tag(id, owned_tag(kind));
            self.next.insert(id);
        }
        !self.next.is_empty()
    }
}

/// Where a pointer leads to in the block `id` that begins at `start`.
#[inline]
pub(crate) fn place((index, types): (&Index, &Types<'_>), (id, start): (u32, u64), address: u64) -> Place {
    let inside = address - start;
    // What a debug allocator puts before it.
    let skip = types.skip() as u64;
    let may_be_own = || inside < PAGE && [0, CHUNK_HEAD].contains(&(start % PAGE));
    let is_large = || index.slot(id).is_some_and(|slot| slot.end - slot.start >= LARGE);
    if inside <= BEGINNING + skip || may_be_own() && is_large() { Place::Begin } else { Place::Inside }
}

fn claim(index: &Index, types: &Types<'_>, next: &mut Frontier, id: u32, kind: u32) {
    match owner_of(index.tag(id)) {
        None => {
            index.set_tag(id, owned_tag(kind));
            next.insert(id);
        }
        // Two objects equally near: the plain one owns it, the one that takes part in cycles only looks at it
        // (an array and the memoryview on it).
        Some(owner) if owner != kind && next.contains(id) => {
            let gc = |kind| types.get(kind).is_some_and(Type::has_gc);
            if gc(owner) && !gc(kind) {
                index.set_tag(id, owned_tag(kind));
            }
        }
        Some(_) => {}
    }
}
