//! The blocks of pools that are looked at together: in which order they are followed, and which of them need not be.
//!
//! Why: most pointers lead to numbers and texts that were made beside what points to them. To find such a block in the index
//! takes six loads that wait for each other; here it takes one. And a block that leads to one of which nothing is known yet has
//! a list made, which is forgotten when that one turns out to lead nowhere. So tuples and the like come first, then blocks that are no
//! objects, then the containers and instances that have such a block as their table: most come after what they lead to.

use crate::index::{FREE, GRAIN, POOL_HEAD, Pool, Tag, object_of};
use crate::links::Links;
use crate::tags::{NONE, PoolTags};
use std::ops::Range;

/// Tags whose turns are at hand.
const LATELY: usize = 16;

/// When a block is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Turn {
    /// Never: it is free or an object that leads nowhere, and nobody asks for it. No pointer to it needs to be followed.
    Never,
    /// Objects without a table.
    Objects,
    /// Blocks that are no objects.
    Raw,
    /// Objects with a table.
    Containers,
}

impl Turn {
    pub(crate) const ALL: [Self; 3] = [Self::Objects, Self::Raw, Self::Containers];

    /// When blocks with a tag are followed.
    pub(crate) fn of(links: &Links, tag: Tag) -> Self {
        match object_of(tag) {
            Some(kind) => match links.get(kind) {
                Some(lead) if lead.is_leaf() => Self::Never,
                Some(lead) if lead.has_table() => Self::Containers,
                _ => Self::Objects,
            },
            None if tag == FREE => Self::Never,
            None => Self::Raw,
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The pools at hand, one beside the other.
#[derive(Default)]
pub(crate) struct Beside {
    start: u64,
    length: u64,
    /// Bytes of a pool, as a power of two.
    shift: u32,
    pools: Vec<Blocks>,
    turns: Vec<Turn>,
    /// A bit for each grain of a block that has no turn: all that is asked for a pointer.
    dull: Vec<u64>,
}

/// Where the blocks of a pool stand of which none has a turn.
const NOWHERE: u32 = u32::MAX;

/// The blocks of one pool: where the first stands, how many there are, and which turns there are.
#[derive(Clone, Copy, Default)]
struct Blocks {
    first: u32,
    count: u32,
    turns: u8,
}

impl Beside {
    /// Other pools come, from `start` to `end`, each of `size` bytes.
    pub(crate) fn begin(&mut self, (start, end): (u64, u64), size: u64) {
        let length = if size.is_power_of_two() { end.saturating_sub(start) } else { 0 };
        (self.start, self.length, self.shift) = (start, length, size.trailing_zeros());
        self.pools.clear();
        self.pools.resize((length >> self.shift) as usize, Blocks::default());
        self.turns.clear();
        self.dull.clear();
        self.dull.resize((length / u64::from(GRAIN)).div_ceil(64) as usize, 0);
    }

    /// One of them, and the tags of its blocks: `turn` tells when those with a tag are followed.
    pub(crate) fn add(&mut self, pool: &Pool, blocks: &PoolTags, turn: impl Fn(Tag) -> Turn) {
        let Some(place) = self.place(pool) else { return };
        let (tags, first) = (&blocks.tags, self.turns.len() as u32);
        let grains = Grains::of(pool, self.start);
        if blocks.few().is_some_and(|mut few| few.all(|tag| turn(tag) == Turn::Never)) {
            self.pools[place] = Blocks { first: NOWHERE, count: tags.len() as u32, turns: Turn::Never.bit() };
            return set(&mut self.dull, grains.first..grains.first + grains.each * tags.len());
        }
        // The turns of tags that came lately, by their lowest bits.
        let mut lately = [(NONE, Turn::Never); LATELY];
        let mut turns = 0;
        self.turns.extend(tags.iter().map(|tag| {
            let known = &mut lately[usize::from(*tag) % LATELY];
            if known.0 != *tag {
                *known = (*tag, turn(*tag));
                turns |= known.1.bit();
            }
            known.1
        }));
        self.pools[place] = Blocks { first, count: tags.len() as u32, turns };
        if turns & Turn::Never.bit() != 0 {
            let never =
                self.turns[first as usize..].iter().enumerate().filter(|(_, turn)| **turn == Turn::Never);
            never.for_each(|(number, _)| grains.set(&mut self.dull, number));
        }
    }

    fn place(&self, pool: &Pool) -> Option<usize> {
        let offset = pool.start.wrapping_sub(self.start);
        let place = (offset >> self.shift) as usize;
        (offset < self.length && place < self.pools.len()).then_some(place)
    }

    /// Whether some blocks of a pool have this turn.
    pub(crate) fn has(&self, pool: &Pool, turn: Turn) -> bool {
        self.place(pool).is_some_and(|place| self.pools[place].turns & turn.bit() != 0)
    }

    /// Lends the turns of all blocks, and tells which are those of a pool: nobody asks for them while its blocks are followed.
    pub(crate) fn lend(&mut self, pool: &Pool) -> Option<(Vec<Turn>, Range<usize>)> {
        let blocks = self.pools[self.place(pool)?];
        if blocks.first == NOWHERE {
            return None;
        }
        let range = blocks.first as usize..(blocks.first + blocks.count) as usize;
        Some((std::mem::take(&mut self.turns), range))
    }

    /// Takes them back.
    pub(crate) fn give_back(&mut self, turns: Vec<Turn>) {
        self.turns = turns;
    }

    /// A block that was thought to lead somewhere does not.
    #[inline]
    pub(crate) fn never(&mut self, pool: &Pool, number: usize) {
        Grains::of(pool, self.start).set(&mut self.dull, number);
    }

    /// A block is asked for, though it leads nowhere.
    pub(crate) fn ask(&mut self, pool: &Pool, number: u32) {
        let Some(place) = self.place(pool) else { return };
        let blocks = &mut self.pools[place];
        if blocks.first == NOWHERE {
            blocks.first = self.turns.len() as u32;
            self.turns.resize(self.turns.len() + blocks.count as usize, Turn::Never);
        }
        let turn = self.turns.get_mut((self.pools[place].first + number) as usize);
        if let Some(turn) = turn.filter(|turn| **turn == Turn::Never) {
            *turn = Turn::Objects;
            self.pools[place].turns |= Turn::Objects.bit();
            Grains::of(pool, self.start).clear(&mut self.dull, number as usize);
        }
    }

    /// Whether nothing is to be found at an address.
    #[inline]
    pub(crate) fn is_dull(&self, address: u64) -> bool {
        let offset = address.wrapping_sub(self.start);
        let grain = (offset / u64::from(GRAIN)) as usize;
        offset < self.length && self.dull.get(grain / 64).is_some_and(|bits| bits >> (grain % 64) & 1 == 1)
    }
}

/// Which grains the blocks of a pool take: the first of the first block, and how many each has.
#[derive(Clone, Copy)]
struct Grains {
    first: usize,
    each: usize,
}

impl Grains {
    /// Counted from `start` on.
    #[inline]
    fn of(pool: &Pool, start: u64) -> Self {
        let first = pool.start.wrapping_sub(start).wrapping_add(POOL_HEAD) / u64::from(GRAIN);
        Self { first: first as usize, each: (pool.block / GRAIN) as usize }
    }

    /// Sets the bits of a block.
    #[inline]
    fn set(self, bits: &mut [u64], number: usize) {
        let at = self.first + self.each * number;
        set(bits, at..at + self.each);
    }

    fn clear(self, bits: &mut [u64], number: usize) {
        for grain in (self.first + self.each * number..).take(self.each) {
            bits.get_mut(grain / 64).into_iter().for_each(|bits| *bits &= !(1 << (grain % 64)));
        }
    }
}

/// Sets some bits one behind the other.
#[inline]
fn set(bits: &mut [u64], range: Range<usize>) {
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min((at / 64 + 1) * 64);
        if let Some(word) = bits.get_mut(at / 64) {
            *word |= u64::MAX >> (64 - (end - at)) << (at % 64);
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Index, RAW, object_tag};

    const START: u64 = 0x7000_0000_0000;
    const SIZE: u64 = 16 << 10;

    fn turn(tag: Tag) -> Turn {
        [Turn::Never, Turn::Raw, Turn::Objects, Turn::Containers][usize::from(tag) % 4]
    }

    #[test]
    fn every_address_of_every_size_of_block_tells_the_block_it_lies_in() {
        for block in (16..=512).step_by(16) {
            let count = (SIZE - POOL_HEAD) / u64::from(block);
            let tags: Vec<Tag> = (0..count).map(|number| (number * 7 % 11) as Tag).collect();
            let mut index = Index::default();
            let tags = PoolTags::from(tags.as_slice());
            index.add_pool((START + SIZE, START + 2 * SIZE), block, &tags);
            let pool = index.last_pool().unwrap();
            let mut beside = Beside::default();
            beside.begin((START, START + 3 * SIZE), SIZE);
            beside.add(&pool, &tags, turn);
            for address in (pool.start + POOL_HEAD..pool.end).step_by(8) {
                let tag = index.find(address).map(|slot| index.tag(slot.id));
                let dull = tag.is_some_and(|tag| turn(tag) == Turn::Never);
                assert_eq!(beside.is_dull(address), dull, "{block} {address:#x}");
            }
            assert!(
                !beside.is_dull(START + 64)
                    && !beside.is_dull(START - 8)
                    && !beside.is_dull(START + 3 * SIZE)
            );
        }
    }

    #[test]
    fn a_block_that_is_asked_for_has_a_turn_and_one_that_led_nowhere_has_none() {
        let tags = PoolTags::from([FREE, RAW, object_tag(4), FREE].as_slice());
        let mut index = Index::default();
        index.add_pool((START, START + SIZE), 64, &tags);
        let pool = index.last_pool().unwrap();
        let mut beside = Beside::default();
        beside.begin((START, START + SIZE), SIZE);
        beside.add(&pool, &tags, |tag| if tag == RAW { Turn::Raw } else { Turn::Never });
        assert!(beside.has(&pool, Turn::Raw) && !beside.has(&pool, Turn::Objects));
        beside.ask(&pool, 2);
        assert!(beside.has(&pool, Turn::Objects) && !beside.is_dull(START + POOL_HEAD + 128));
        beside.never(&pool, 1);
        assert!(beside.is_dull(START + POOL_HEAD + 64));
        index.add_pool((START + SIZE, START + 2 * SIZE), 64, &tags);
        let other = index.last_pool().unwrap();
        assert!(beside.lend(&other).is_none() && !beside.has(&other, Turn::Raw));
        beside.begin((0, 0), 1);
        assert!(beside.lend(&pool).is_none() && !beside.is_dull(START + POOL_HEAD));
    }
}
