//! Private memory that an object mapped for itself, as `mmap` objects do: of no allocator, so no head tells where it begins or ends.
//!
//! The kernel melts such mappings with their neighbours, so only the object tells: a word that is the address of a page of nobody's,
//! and behind it how many bytes there are. Not here: shared memory, whose mappings stay apart (`own.rs`).

use crate::index::{Index, object_of};
use crate::layout::{Layout, Region, is_anonymous};
use crate::reader::{Reader, plausible, word};
use crate::types::{Family, Types};
use std::ops::RangeInclusive;

/// Only where at least this much is nobody's, and one part in so many, are objects looked at.
const WORTH: u64 = 1 << 20;
const PART: u64 = 32;
const PAGE: u64 = 4 << 10;
/// Bytes of objects that can have such a word: others are all entries, or have no room for it.
const SIZES: RangeInclusive<u64> = 32..=512;
/// Objects of one type, and of all, that are looked at: what maps memory is few.
const MOST_OF_TYPE: u64 = 4096;
const MOST: u64 = 1 << 15;

/// Memory that objects of a type mapped: resident bytes, and those that are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub(crate) kind: u32,
    pub(crate) here: u64,
    pub(crate) absent: u64,
}

/// What objects have mapped for themselves, by the types that were counted.
pub(crate) fn mapped(
    (reader, index, types): (&Reader<'_>, &Index, &Types<'_>),
    layout: &Layout,
) -> Vec<Mapped> {
    let free = Free::new(reader, layout);
    let known: u64 = free.regions.iter().map(|(start, end)| layout.resident.within(*start, *end)).sum();
    let all = layout.resident.total();
    if all.saturating_sub(known) < WORTH.max(all / PART) {
        return Vec::new();
    }
    let wanted = wanted(types);
    let mut extents: Vec<(u64, u64, u32)> = Vec::new();
    let is_wanted = |kind: u32| wanted.get(kind as usize).copied().unwrap_or(false);
    index.for_each_wanted(
        |tag| object_of(tag).is_some_and(is_wanted),
        |slot, tag, _| {
            let mut bytes = [0; *SIZES.end() as usize];
            let size = bytes.len().min((slot.end - slot.start) as usize);
            if let Some(kind) = object_of(tag).filter(|_| reader.cached(slot.start, &mut bytes[..size])) {
                let words = (0..size.saturating_sub(15)).step_by(8);
                let pairs = words.map(|at| (word(&bytes, at), word(&bytes, at + 8)));
                extents.extend(
                    pairs.filter_map(|pair| free.extent(pair)).map(|(start, end)| (start, end, kind)),
                );
            }
        },
    );
    extents.sort_unstable();
    sum(layout, &extents)
}

/// Each byte counts once, for the first who has it.
fn sum(layout: &Layout, extents: &[(u64, u64, u32)]) -> Vec<Mapped> {
    let mut at = 0;
    let one = |(start, end, kind): &(u64, u64, u32)| {
        let (start, end) = (at.max(*start), *end);
        at = at.max(end);
        let here = layout.resident.within(start.min(end), end);
        Mapped { kind: *kind, here, absent: end.saturating_sub(start) - here }
    };
    extents.iter().map(one).collect()
}

/// Which types have objects that may have such a word: no containers, and not many objects. Those with the fewest come first.
fn wanted(types: &Types<'_>) -> Vec<bool> {
    let all = &types.all;
    let mut kinds: Vec<usize> = (0..all.len())
        .filter(|kind| {
            let found = &all[*kind];
            let few = (1..=MOST_OF_TYPE).contains(&found.count);
            few && found.leads
                && found.family() == Family::Other
                && SIZES.contains(&(found.lead + found.basic))
        })
        .collect();
    kinds.sort_unstable_by_key(|kind| all[*kind].count);
    let mut left = MOST;
    let mut wanted = vec![false; all.len()];
    for kind in kinds {
        let Some(less) = left.checked_sub(all[kind].count) else { break };
        (left, wanted[kind]) = (less, true);
    }
    wanted
}

/// Anonymous memory and what is known of it, both ascending.
struct Free {
    stretches: Vec<(u64, u64)>,
    regions: Vec<(u64, u64)>,
}

impl Free {
    fn new(reader: &Reader<'_>, layout: &Layout) -> Self {
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        let is_stack = |start: u64, end: u64| layout.stacks.binary_search(&(start, end)).is_ok();
        for mapping in reader.memory().mappings().iter().filter(|mapping| is_anonymous(mapping)) {
            match stretches.last_mut() {
                _ if is_stack(mapping.start, mapping.end) => {}
                Some(last) if last.1 == mapping.start => last.1 = mapping.end,
                _ => stretches.push((mapping.start, mapping.end)),
            }
        }
        let regions = layout.regions.iter().map(|region| match region {
            Region::Pool(place) => (place.address, place.address + place.size),
            Region::Heap(heap) => (heap.start, heap.end),
            Region::Single(start, end) | Region::Shared(start, end) => (*start, *end),
        });
        let mut regions: Vec<(u64, u64)> = regions.collect();
        regions.sort_unstable();
        Self { stretches, regions }
    }

    /// The memory that an address and a length tell, if it is nobody's.
    fn extent(&self, (start, length): (u64, u64)) -> Option<(u64, u64)> {
        if !plausible(start) || !start.is_multiple_of(PAGE) || !(PAGE..1 << 47).contains(&length) {
            return None;
        }
        let end = start.checked_add(length)?.next_multiple_of(PAGE);
        let after = self.stretches.partition_point(|(begin, _)| *begin <= start);
        let within = after.checked_sub(1).is_some_and(|at| end <= self.stretches[at].1);
        let next = self.regions.partition_point(|(_, stop)| *stop <= start);
        let apart = self.regions.get(next).is_none_or(|(begin, _)| end <= *begin);
        (within && apart).then_some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_a_length_tell_memory_only_where_it_is_nobodys() {
        const AT: u64 = 0x7000_0000_0000;
        let free = Free {
            stretches: vec![(AT, AT + 64 * PAGE), (AT + 99 * PAGE, AT + 100 * PAGE)],
            regions: vec![(AT + 8 * PAGE, AT + 10 * PAGE)],
        };
        let extent = |page: u64, length: u64| free.extent((AT + page * PAGE, length));
        assert_eq!(extent(2, 5000), Some((AT + 2 * PAGE, AT + 4 * PAGE)));
        assert_eq!(extent(10, 54 * PAGE), Some((AT + 10 * PAGE, AT + 64 * PAGE)));
        assert_eq!(extent(10, 55 * PAGE), None, "behind its end");
        assert_eq!(extent(7, 2 * PAGE), None, "a pool is in it");
        assert_eq!(extent(9, PAGE), None, "in a pool");
        assert_eq!(extent(2, 100), None, "no page");
        assert_eq!(free.extent((AT + 16, PAGE)), None, "no page begins there");
        assert_eq!(extent(2, u64::MAX), None);
    }

    #[test]
    fn what_two_objects_have_counts_once() {
        let mut layout = Layout::default();
        layout.resident.add(&[(0x1000, 0x3000)]);
        let all = sum(&layout, &[(0x1000, 0x4000, 1), (0x1000, 0x4000, 2), (0x3000, 0x5000, 3)]);
        let told: Vec<(u64, u64)> = all.iter().map(|one| (one.here, one.absent)).collect();
        assert_eq!(told, [(0x2000, 0x1000), (0, 0), (0, 0x1000)]);
    }
}
