//! What each block is, for little more than half a byte: blocks near each other are of few kinds.
//!
//! A group of 256 blocks has a palette of sixteen tags, and each block a number of four bits in it. A group with more
//! tags than that is kept wide, two bytes a block. Groups go by the blocks' numbers and not by pools, so that a block's
//! number alone finds its tag.

use crate::index::Tag;
use std::cell::{Cell, RefCell};
use std::ops::Range;

const GROUP: usize = 256;
const COLOURS: usize = 16;
/// A place of a palette that is not taken; no block has this tag.
pub(crate) const NONE: Tag = Tag::MAX;

/// The tags of 256 blocks. Of a group that is kept wide the palette is empty and the first bytes are its number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    palette: [Cell<Tag>; COLOURS],
    blocks: [Cell<u8>; GROUP / 2],
}

impl Group {
    fn new() -> Self {
        Self { palette: [const { Cell::new(NONE) }; COLOURS], blocks: [const { Cell::new(0) }; GROUP / 2] }
    }

    #[inline]
    fn get(&self, place: usize) -> Tag {
        let number = self.blocks[place / 2].get() >> (place % 2 * 4) & 15;
        self.palette[usize::from(number)].get()
    }

    #[inline]
    fn put(&self, place: usize, number: usize) {
        let shift = place % 2 * 4;
        let byte = &self.blocks[place / 2];
        byte.set(byte.get() & !(15 << shift) | (number as u8) << shift);
    }

    /// The same for some blocks one behind the other.
    fn put_all(&self, places: Range<usize>, number: usize) {
        let (first, last) = (places.start.next_multiple_of(2), places.end / 2 * 2);
        if first > last {
            return places.for_each(|place| self.put(place, number));
        }
        (places.start..first).chain(last..places.end).for_each(|place| self.put(place, number));
        self.blocks[first / 2..last / 2].iter().for_each(|byte| byte.set((number << 4 | number) as u8));
    }

    /// The number of a tag in the palette, which takes it up while there is room.
    #[inline]
    fn number(&self, tag: Tag) -> Option<usize> {
        let number = self.palette.iter().position(|known| known.get() == tag || known.get() == NONE)?;
        self.palette[number].set(tag);
        Some(number)
    }

    fn is_wide(&self) -> bool {
        self.palette[0].get() == NONE
    }

    fn wide(&self) -> usize {
        let byte = |at: usize| self.blocks[at].get();
        u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)]) as usize
    }

    fn set_wide(&self, number: usize) {
        self.palette.iter().for_each(|colour| colour.set(NONE));
        self.blocks.iter().for_each(|byte| byte.set(0));
        for (byte, part) in self.blocks.iter().zip((number as u32).to_le_bytes()) {
            byte.set(part);
        }
    }
}

/// The tags of a pool's blocks, and how many have which, where those are few.
#[derive(Clone, Debug)]
pub(crate) struct PoolTags {
    pub(crate) tags: Vec<Tag>,
    /// Those that there are, by their lowest bits.
    kinds: [Tag; COLOURS],
    many: bool,
}

impl Default for PoolTags {
    fn default() -> Self {
        Self { tags: Vec::new(), kinds: [NONE; COLOURS], many: false }
    }
}

impl PoolTags {
    /// Other blocks come: so many, all with one tag until they are given another.
    pub(crate) fn begin(&mut self, count: usize, tag: Tag) {
        self.tags.clear();
        self.tags.resize(count, tag);
        (self.kinds, self.many) = ([NONE; COLOURS], false);
    }

    /// Gives every block the tag that `tell` says of it, by the one it has.
    #[inline]
    #[expect(clippy::needless_bitwise_bool, reason = "a branch for each block would be guessed wrong often")]
    pub(crate) fn tell(&mut self, mut tell: impl FnMut(Tag) -> Tag) {
        for tag in &mut self.tags {
            *tag = tell(*tag);
            let place = &mut self.kinds[usize::from(*tag) % COLOURS];
            self.many |= (*place != *tag) & (*place != NONE);
            *place = *tag;
        }
    }

    /// The different tags; nothing where they are many.
    pub(crate) fn few(&self) -> Option<impl Iterator<Item = Tag>> {
        let kinds = (!self.many).then_some(&self.kinds);
        kinds.map(|kinds| kinds.iter().copied().filter(|tag| *tag != NONE))
    }

    /// Whether a block has this tag.
    pub(crate) fn has(&self, tag: Tag) -> bool {
        self.few().map_or_else(|| self.tags.contains(&tag), |mut few| few.any(|one| one == tag))
    }
}

impl From<&[Tag]> for PoolTags {
    fn from(tags: &[Tag]) -> Self {
        let mut all = Self { tags: tags.to_vec(), ..Self::default() };
        all.tell(|tag| tag);
        all
    }
}

type Wide = Box<[Tag; GROUP]>;

/// The tags of all blocks, by number.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    groups: Vec<Group>,
    wide: RefCell<Vec<Wide>>,
    count: usize,
}

impl Tags {
    /// How many blocks.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        (self.groups.capacity() * size_of::<Group>()) as u64 + self.wide_bytes()
    }

    /// Bytes of the groups that are kept wide.
    pub(crate) fn wide_bytes(&self) -> u64 {
        let wide = self.wide.borrow();
        (wide.capacity() * size_of::<Wide>() + wide.len() * size_of::<[Tag; GROUP]>()) as u64
    }

    /// Bytes that a number of further blocks take, about.
    pub(crate) fn bytes_of(blocks: usize) -> u64 {
        (blocks * size_of::<Group>()).div_ceil(GROUP) as u64
    }

    /// Gives back what was kept for more.
    pub(crate) fn shrink(&mut self) {
        self.groups.shrink_to_fit();
    }

    /// The tag of a block, if there is one.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<Tag> {
        let at = id as usize;
        let group = self.groups.get(at / GROUP).filter(|_| at < self.count)?;
        match group.get(at % GROUP) {
            NONE => self.get_wide(group, at),
            tag => Some(tag),
        }
    }

    #[cold]
    fn get_wide(&self, group: &Group, at: usize) -> Option<Tag> {
        let wide = self.wide.borrow();
        wide.get(group.wide()).map(|tags| tags[at % GROUP])
    }

    /// Changes the tag of a block.
    pub(crate) fn set(&self, id: u32, tag: Tag) {
        let at = id as usize;
        if at < self.count {
            self.put(&self.groups[at / GROUP], at % GROUP, tag);
        }
    }

    fn put(&self, group: &Group, place: usize, tag: Tag) {
        if !group.is_wide() {
            if let Some(number) = group.number(tag) {
                return group.put(place, number);
            }
            self.widen(group);
        }
        if let Some(tags) = self.wide.borrow_mut().get_mut(group.wide()) {
            tags[place] = tag;
        }
    }

    #[cold]
    fn widen(&self, group: &Group) {
        let tags: Wide = Box::new(std::array::from_fn(|place| group.get(place)));
        let mut wide = self.wide.borrow_mut();
        group.set_wide(wide.len());
        wide.push(tags);
    }

    /// Adds a block after all others.
    #[inline]
    pub(crate) fn push(&mut self, tag: Tag) {
        let place = self.count % GROUP;
        if place == 0 {
            let group = Group::new();
            group.palette[0].set(tag);
            self.groups.push(group);
        } else if let Some(group) = self.groups.last() {
            self.put(group, place, tag);
        }
        self.count += 1;
    }

    /// Adds blocks after all others.
    pub(crate) fn extend(&mut self, tags: &[Tag]) {
        let mut left = tags;
        while !left.is_empty() {
            // The first of a group makes the group.
            let begins = usize::from(self.count.is_multiple_of(GROUP));
            let room = GROUP - self.count % GROUP;
            let (now, later) = left.split_at(room.min(left.len()));
            now.iter().take(begins).for_each(|tag| self.push(*tag));
            self.fill(&now[begins..]);
            left = later;
        }
    }

    /// Adds blocks to the last group, which has room for them.
    fn fill(&mut self, tags: &[Tag]) {
        let Some(group) = self.groups.last() else { return };
        let from = self.count % GROUP;
        if let Some(first) =
            tags.first().filter(|first| tags.iter().all(|tag| tag == *first) && !group.is_wide())
            && let Some(number) = group.number(*first)
        {
            group.put_all(from..from + tags.len(), number);
            self.count += tags.len();
            return;
        }
        // Where the palette has the tags that came lately, by their lowest bits.
        let mut lately = [(NONE, 0); COLOURS];
        for (place, tag) in (from..).zip(tags) {
            let known = &mut lately[usize::from(*tag) % COLOURS];
            if known.0 == *tag {
                group.put(place, known.1);
                continue;
            }
            self.put(group, place, *tag);
            if !group.is_wide()
                && let Some(number) = group.number(*tag)
            {
                *known = (*tag, number);
            } else {
                lately = [(NONE, 0); COLOURS];
            }
        }
        self.count += tags.len();
    }

    /// Forgets all blocks but the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
        let wide = self.wide.get_mut();
        for group in self.groups.drain(self.count.div_ceil(GROUP)..).rev() {
            if group.is_wide() && group.wide() + 1 == wide.len() {
                wide.pop();
            }
        }
    }

    /// Adds the blocks of another after all others.
    pub(crate) fn append(&mut self, other: Self) {
        if self.count == 0 {
            *self = other;
            return;
        }
        (0..other.count as u32).filter_map(|id| other.get(id)).for_each(|tag| self.push(tag));
    }

    /// Calls `each` with those of `count` blocks from `first` on that have a wanted tag. Quick where few have.
    pub(crate) fn each_wanted(
        &self,
        first: u32,
        count: u32,
        wanted: impl Fn(Tag) -> bool,
        mut each: impl FnMut(u32, Tag),
    ) {
        let end = (first as usize + count as usize).min(self.count);
        let mut at = first as usize;
        while at < end {
            let stop = end.min((at / GROUP + 1) * GROUP);
            let group = &self.groups[at / GROUP];
            let known = |colour: &Cell<Tag>| colour.get() != NONE && wanted(colour.get());
            if group.is_wide() || group.palette.iter().any(known) {
                for id in at..stop {
                    if let Some(tag) = self.get(id as u32).filter(|tag| wanted(*tag)) {
                        each(id as u32, tag);
                    }
                }
            }
            at = stop;
        }
    }

    /// Calls `each` with every tag that some of `count` blocks from `first` on have, and how many: now and then a tag twice.
    pub(crate) fn counts(&self, first: u32, count: u32, mut each: impl FnMut(Tag, u32)) {
        let end = (first as usize + count as usize).min(self.count);
        let mut at = first as usize;
        while at < end {
            let stop = end.min((at / GROUP + 1) * GROUP);
            let group = &self.groups[at / GROUP];
            if group.is_wide() {
                (at..stop).filter_map(|at| self.get_wide(group, at)).for_each(|tag| each(tag, 1));
            } else {
                let mut counts = [0_u32; COLOURS];
                for place in at % GROUP..at % GROUP + (stop - at) {
                    counts[usize::from(group.blocks[place / 2].get() >> (place % 2 * 4) & 15)] += 1;
                }
                let met = counts.iter().zip(&group.palette).filter(|(count, _)| **count > 0);
                met.for_each(|(count, tag)| each(tag.get(), *count));
            }
            at = stop;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn all(tags: &Tags) -> Vec<Tag> {
        (0..tags.len() as u32).map(|id| tags.get(id).unwrap()).collect()
    }

    /// Few kinds or many, in runs as pools have them.
    fn some_tags() -> impl Strategy<Value = Vec<Tag>> {
        let run = (0_u16..40, 1_usize..60, 1_usize..3)
            .prop_map(|(tag, count, kinds)| [tag * 0x0666, 0x8000 | tag][..kinds].repeat(count));
        proptest::collection::vec(run, 0..60).prop_map(|runs| runs.concat())
    }

    proptest! {
        #[test]
        fn every_tag_comes_back_however_many_kinds_there_are(
            first in some_tags(), second in some_tags(), changes in proptest::collection::vec((any::<u16>(), 0_u16..Tag::MAX), 0..200),
        ) {
            let mut tags = Tags::default();
            tags.extend(&first);
            let (pushed, runs) = second.split_at(second.len() / 2);
            pushed.iter().for_each(|tag| tags.push(*tag));
            runs.chunk_by(|one, next| one == next).for_each(|run| tags.extend(run));
            let mut wanted = [first, second].concat();
            prop_assert_eq!(&all(&tags), &wanted);
            for (at, tag) in changes {
                tags.set(u32::from(at), tag);
                if let Some(place) = wanted.get_mut(usize::from(at)) { *place = tag; }
            }
            prop_assert_eq!(&all(&tags), &wanted);
            prop_assert_eq!(tags.get(wanted.len() as u32), None);
            let (from, to) = (wanted.len() / 3, wanted.len() / 4 * 3);
            let (mut counted, mut right) = (BTreeMap::new(), BTreeMap::new());
            tags.counts(from as u32, to.saturating_sub(from) as u32, |tag, count| *counted.entry(tag).or_insert(0) += count);
            wanted.iter().take(to).skip(from).for_each(|tag| *right.entry(*tag).or_insert(0) += 1);
            for wanted_tag in right.keys() {
                let (mut met, is_it) = (Vec::new(), |tag| tag == *wanted_tag);
                tags.each_wanted(from as u32, (to - from) as u32, is_it, |id, tag| met.push((id as usize, tag)));
                let here = (0..to).zip(&wanted).skip(from).filter(|(_, tag)| is_it(**tag));
                prop_assert_eq!(met, here.map(|(id, tag)| (id, *tag)).collect::<Vec<_>>());
            }
            prop_assert_eq!(counted, right);
            let mut both = Tags::default();
            both.extend(&wanted);
            let mut copy = Tags::default();
            copy.extend(&wanted);
            both.append(copy);
            let mut whole = Tags::default();
            whole.append(both);
            prop_assert_eq!(all(&whole), [wanted.clone(), wanted.clone()].concat());
            tags.truncate(from);
            tags.extend(&wanted);
            wanted.splice(0..0, wanted.clone().into_iter().take(from));
            prop_assert_eq!(all(&tags), wanted);
        }
    }

    #[test]
    fn the_kinds_of_a_pool_are_told_where_they_are_few() {
        let few = |tags: &[Tag]| PoolTags::from(tags).few().map(Iterator::collect::<Vec<Tag>>);
        assert_eq!(few(&[0, 0x8009, 0, 0x8009]), Some(vec![0, 0x8009]));
        assert_eq!(few(&[]), Some(vec![]));
        // Two of them with the same lowest bits.
        assert_eq!(few(&[0x8009, 0x8019, 0x8009]), None);
        let many = PoolTags::from([0x8009, 0x8019, 1].as_slice());
        assert!(many.has(1) && many.has(0x8009) && many.has(0x8019) && !many.has(0));
        let mut again = many;
        again.begin(2, 1);
        assert_eq!((again.tags.as_slice(), again.few().map(Iterator::count)), ([1, 1].as_slice(), Some(0)));
    }

    #[test]
    fn few_kinds_take_little_more_than_half_a_byte() {
        let mut tags = Tags::default();
        (0..1_000_000_u32).for_each(|id| tags.push((id / 100 % 12) as Tag));
        tags.shrink();
        assert!(tags.own_bytes() < 630_000, "{}", tags.own_bytes());
        assert_eq!(Tags::bytes_of(1_000_000), 625_000);
    }
}
