//! Every block of memory an allocator handed out, found by any address inside it.
//!
//! Half a byte a block (`tags.rs`) and one bit for each 16 bytes of a heap: the index of a process full of small blocks stays
//! far below a tenth of it. Blocks are numbered ("slots") in the order of their addresses.

mod each;
#[cfg(test)]
mod tests;

pub(crate) use each::{Pool, Visit};

use crate::directory::{Directory, EXPECTED, HAS_RAW, QUIET};
use crate::ranked::Ranked;
use crate::tags::{PoolTags, Tags};

/// What a slot is. Below [`FIRST_OWNER`] it has no type; above, the type is that of the object, or of the owner.
pub(crate) type Tag = u16;
/// Not handed out.
pub(crate) const FREE: Tag = 0;
/// Handed out; no object, and nobody's so far.
pub(crate) const RAW: Tag = 1;
/// Freed, but a thread keeps it for its next allocation.
pub(crate) const CACHED: Tag = 2;
const FIRST_OWNER: Tag = 8;
const OBJECT: Tag = 0x8000;
/// Types that tags can tell apart; more than that share the last number.
pub(crate) const MOST_TYPES: usize = (OBJECT - FIRST_OWNER - 1) as usize;

pub(crate) fn object_tag(kind: u32) -> Tag {
    OBJECT | owned_tag(kind)
}

pub(crate) fn owned_tag(kind: u32) -> Tag {
    (kind.min(MOST_TYPES as u32 - 1) as Tag) + FIRST_OWNER
}

/// The type of an object.
pub(crate) fn object_of(tag: Tag) -> Option<u32> {
    (tag & OBJECT != 0).then(|| u32::from(tag & !OBJECT) - u32::from(FIRST_OWNER))
}

/// The owner of a raw block.
pub(crate) fn owner_of(tag: Tag) -> Option<u32> {
    (tag & OBJECT == 0 && tag >= FIRST_OWNER).then(|| u32::from(tag - FIRST_OWNER))
}

/// A block and where it lies. For chunks of the C allocator that is what the program got, without the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) id: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Where the last block was found, for [`Index::slot_near`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Near {
    span: usize,
    /// Number of the last chunk in its heap, and where it begins.
    chunk: Option<(u32, usize)>,
}

/// What a block lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Pool,
    Heap,
    /// A mapping of its own.
    Mapping,
    /// One that others may have as well.
    Shared,
}

/// Bytes of a chunk's header that do not belong to the program.
pub(crate) const CHUNK_HEAD: u64 = 16;
/// Bytes of the program's that lie in the head of the next chunk: the last word of an object, or of a list's table.
pub(crate) const CHUNK_TAIL: u64 = 8;
/// A block has at most so many bytes before a type that is in it (what allocators and the collector put there), and at least so
/// many from where that begins.
const MOST_BEFORE_TYPE: u64 = 64;
const LEAST_TYPE: u64 = 296;
/// Bytes of a pool's header.
pub(crate) const POOL_HEAD: u64 = 48;

#[derive(Debug)]
enum Shape {
    /// Blocks of one size after the pool's header.
    Pool { block: u32 },
    /// Chunks that begin where a bit is set.
    Heap(Box<Ranked>),
    /// One chunk with a mapping of its own.
    Single,
    /// Shared memory: one block, and nobody's head before it.
    Shared,
}

/// What following a pointer into a pool needs, and nothing else: there are many pools, and pointers go anywhere.
#[derive(Clone, Copy, Debug, Default)]
struct Brief {
    first: u32,
    slots: u16,
    /// Bytes of a block; 0 for all that is no pool.
    block: u16,
    /// For dividing by them.
    share: u32,
    known: bool,
}

/// Bytes of blocks are multiples of this.
pub(crate) const GRAIN: u32 = 16;
/// A place in a pool is below 1024 grains and a block has at most 32: so the quotient is exact.
const SHARE_SHIFT: u32 = 16;

/// What a number of grains is multiplied with, and then shifted, to divide it by a block's size.
fn share(block: u32) -> u32 {
    (1_u32 << SHARE_SHIFT).div_ceil((block / GRAIN).max(1))
}

impl Brief {
    fn new(span: &Span) -> Self {
        let block = match span.shape {
            Shape::Pool { block } => block,
            Shape::Heap(_) | Shape::Single | Shape::Shared => 0,
        };
        let grains = block / GRAIN;
        let fits =
            (1..=32).contains(&grains) && block.is_multiple_of(GRAIN) && span.end - span.start <= 16 << 10;
        let share = if fits { share(block) } else { 0 };
        Self {
            first: span.first,
            slots: span.slots as u16,
            block: if fits { block as u16 } else { 0 },
            share,
            known: span.known,
        }
    }

    /// The block at `offset` in the pool.
    #[inline]
    fn slot(self, address: u64, offset: u64) -> Option<Slot> {
        let inside = offset.checked_sub(POOL_HEAD)? as u32;
        let number = (inside / GRAIN * self.share) >> SHARE_SHIFT;
        (number < u32::from(self.slots))
            .then(|| pool_slot(address - offset, self.first + number, number, self.block.into()))
    }
}

#[derive(Debug)]
struct Span {
    start: u64,
    end: u64,
    first: u32,
    slots: u32,
    /// Which of its blocks may lead to others.
    leads: Leads,
    /// Whether it is known which of its blocks are worth leading to.
    known: bool,
    shape: Shape,
}

impl Span {
    fn is_pool(&self) -> bool {
        matches!(self.shape, Shape::Pool { .. })
    }
}

/// Which blocks lead somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leads {
    Nowhere,
    /// No object, but blocks that are none may.
    Raw,
    Objects,
}

/// What is looked for behind a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Blocks that are no objects.
    Raw,
    All,
}

/// What is behind a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    Nothing,
    /// A pool that is still to be read.
    Unread,
    /// A block, and whether it is known if it is worth leading to.
    Block {
        id: u32,
        start: u64,
        tag: Tag,
        known: bool,
    },
}

/// An address where something may be found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) address: u64,
    entry: u32,
}

/// Where blocks can be, for those who ask for many words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    low: u64,
    length: u64,
}

impl Reach {
    /// Whether a word could lead there, whatever its low bits say. Quick to say no: most words are small numbers.
    #[inline]
    pub(crate) fn may_be(self, stored: u64) -> bool {
        stored.wrapping_sub(self.low) < self.length
    }
}

/// All slots.
#[derive(Default)]
pub(crate) struct Index {
    spans: Vec<Span>,
    /// One for each of them.
    briefs: Vec<Brief>,
    /// Bytes of a pool, less one.
    pool_mask: u64,
    tags: Tags,
    directory: Directory,
    low: u64,
    high: u64,
}

impl Index {
    /// Bytes of tags that took more than they mostly do.
    pub(crate) fn wide_bytes(&self) -> u64 {
        self.tags.wide_bytes()
    }

    /// Bytes this index takes, roughly.
    pub(crate) fn own_bytes(&self) -> u64 {
        let heaps = self.spans.iter().map(|span| match &span.shape {
            Shape::Heap(starts) => starts.own_bytes(),
            Shape::Pool { .. } | Shape::Single | Shape::Shared => 0,
        });
        let spans = self.spans.capacity() * (size_of::<Span>() + size_of::<Brief>());
        heaps.sum::<u64>() + spans as u64 + self.tags.own_bytes() + self.directory.own_bytes()
    }

    /// Gives back what was kept for more.
    pub(crate) fn shrink(&mut self) {
        self.tags.shrink();
        self.spans.shrink_to_fit();
        self.briefs.shrink_to_fit();
    }

    /// A pool will be added later.
    pub(crate) fn expect_pool(&mut self, start: u64, end: u64) {
        self.directory.set(start, end, EXPECTED);
        self.reach(start, end);
    }

    /// Adds a pool with its blocks. Gives the number of the first, if there was room for it.
    pub(crate) fn add_pool(&mut self, (start, end): (u64, u64), block: u32, pool: &PoolTags) -> Option<u32> {
        let (tags, raw) = (pool.tags.as_slice(), pool.has(RAW));
        let first = self.tags.len() as u32;
        self.add((start, end), Shape::Pool { block }, (tags.len(), raw)).then(|| {
            self.tags.extend(tags);
            first
        })
    }

    /// Adds a chunk with a mapping of its own.
    pub(crate) fn add_single(&mut self, start: u64, end: u64, tag: Tag) {
        if self.add((start, end), Shape::Single, (1, tag == RAW)) {
            self.tags.push(tag);
        }
    }

    /// Adds a mapping of shared memory.
    pub(crate) fn add_shared(&mut self, start: u64, end: u64) {
        if self.add((start, end), Shape::Shared, (1, true)) {
            self.tags.push(RAW);
        }
    }

    /// Adds a heap whose chunks begin at `starts` (bits of 16 bytes from `start`).
    pub(crate) fn add_heap(&mut self, start: u64, end: u64, heap: HeapSlots) {
        let shape = Shape::Heap(Box::new(Ranked::new(heap.bits)));
        let mut raw = false;
        heap.tags.counts(0, heap.tags.len() as u32, |tag, _| raw |= tag == RAW);
        if self.add((start, end), shape, (heap.tags.len(), raw)) {
            self.tags.append(heap.tags);
        }
    }

    /// Adds a span of `slots` blocks, some of them raw or none. Says whether there was room for it.
    fn add(&mut self, (start, end): (u64, u64), shape: Shape, (slots, raw): (usize, bool)) -> bool {
        if self.tags.len() + slots >= u32::MAX as usize || self.spans.len() >= EXPECTED as usize - 1 {
            return false;
        }
        let number = self.spans.len() as u32 + 1;
        let raw = if raw { HAS_RAW } else { 0 };
        match shape {
            Shape::Single | Shape::Shared => self.directory.set_wide(start, end, number | raw),
            Shape::Pool { .. } | Shape::Heap(_) => self.directory.set(start, end, number | raw),
        }
        self.reach(start, end);
        let (first, slots) = (self.tags.len() as u32, slots as u32);
        let span = Span { start, end, first, slots, leads: Leads::Objects, known: false, shape };
        if span.is_pool() {
            self.pool_mask = end - start - 1;
        }
        self.briefs.push(Brief::new(&span));
        self.spans.push(span);
        true
    }

    fn reach(&mut self, start: u64, end: u64) {
        self.low = if self.high == 0 { start } else { self.low.min(start) };
        self.high = self.high.max(end);
    }

    /// Which blocks of a pool lead to others is known now, and whether one of them is worth leading to.
    pub(crate) fn settle(&mut self, pool: &Pool, leads: Leads, worth: bool) {
        if let Some(span) = self.spans.get_mut(pool.number as usize) {
            (span.leads, span.known) = (leads, true);
            self.briefs[pool.number as usize].known = true;
            self.set_quiet(pool.number, worth);
        }
    }

    /// Looks again at all pools that are known: `worth` tells whether some of the blocks from the first to before the last are
    /// worth leading to.
    pub(crate) fn settle_again(&mut self, worth: impl Fn(u32, u32) -> bool) {
        for number in 0..self.spans.len() as u32 {
            let span = &self.spans[number as usize];
            if span.known && span.is_pool() {
                let worth = worth(span.first, span.first + span.slots);
                self.set_quiet(number, worth);
            }
        }
    }

    fn set_quiet(&mut self, number: u32, worth: bool) {
        let Some(span) = self.spans.get(number as usize) else { return };
        let entry = self.directory.get(span.start);
        let now = if worth { entry & !QUIET } else { entry | QUIET };
        if now != entry {
            self.directory.set(span.start, span.end, now);
        }
    }

    /// How many blocks.
    pub(crate) fn slots(&self) -> usize {
        self.tags.len()
    }

    #[inline]
    pub(crate) fn tag(&self, id: u32) -> Tag {
        self.tags.get(id).unwrap_or(FREE)
    }

    pub(crate) fn set_tag(&self, id: u32, tag: Tag) {
        self.tags.set(id, tag);
    }

    /// The number of the span in an entry of the directory.
    #[inline]
    fn number(entry: u32) -> Option<usize> {
        (entry & !(HAS_RAW | QUIET)).checked_sub(1).map(|number| number as usize)
    }

    /// The block that `address` lies in.
    pub(crate) fn find(&self, address: u64) -> Option<Slot> {
        let number = Self::number(self.directory.get(address))?;
        Self::slot_in(self.spans.get(number)?, address)
    }

    /// What is known of the page that `address` lies on, if [`Index::meet`] could give more than nothing for it, whatever is wanted.
    #[inline]
    pub(crate) fn look(&self, address: u64) -> Option<Look> {
        let entry = self.directory.get(address);
        (entry != 0 && (entry & HAS_RAW != 0 || entry & QUIET == 0)).then_some(Look { address, entry })
    }

    /// The block that an address lies in, if that could be owned or is worth leading to. Quick to say no.
    #[inline]
    pub(crate) fn meet(&self, Look { address, entry }: Look, wanted: Wanted) -> Met {
        let raw = entry & HAS_RAW != 0;
        if entry == 0 || !raw && (entry & QUIET != 0 || wanted == Wanted::Raw && entry != EXPECTED) {
            return Met::Nothing;
        }
        if entry == EXPECTED {
            return Met::Unread;
        }
        let Some((number, brief)) =
            Self::number(entry).and_then(|number| Some((number, self.briefs.get(number)?)))
        else {
            return Met::Nothing;
        };
        let begin = if brief.block > 0 {
            brief.slot(address, address & self.pool_mask).map(|slot| (slot.id, slot.start))
        } else {
            Self::begin_in(&self.spans[number], address)
        };
        match begin {
            Some((id, start)) => Met::Block { id, start, tag: self.tag(id), known: brief.known },
            None => Met::Nothing,
        }
    }

    /// The block that `address` lies in, if it could be one that is no object. Quick to say no.
    #[inline]
    pub(crate) fn find_raw(&self, address: u64) -> Option<Slot> {
        if !self.covers(address) {
            return None;
        }
        let entry = self.directory.get(address);
        if entry & HAS_RAW == 0 {
            return None;
        }
        let slot = Self::slot_in(self.spans.get(Self::number(entry)?)?, address)?;
        let tag = self.tag(slot.id);
        (tag == RAW || owner_of(tag).is_some()).then_some(slot)
    }

    /// Whether something is known of the page that `address` lies on.
    pub(crate) fn is_known(&self, address: u64) -> bool {
        self.directory.get(address) != 0
    }

    /// Whether `address` lies between the first block and the last.
    #[inline]
    pub(crate) fn covers(&self, address: u64) -> bool {
        (self.low..self.high).contains(&address)
    }

    /// The same for many words that are not addresses yet, and for what else may be in a range.
    pub(crate) fn reach_with(&self, (low, high): (u64, u64)) -> Reach {
        const MARKS: u64 = 7;
        let low = self.low.min(low).saturating_sub(MARKS);
        Reach { low, length: self.high.max(high).saturating_add(MARKS) - low }
    }

    /// Whether a type could be at `address`: that is in no block, or near the beginning of one that is large enough. Those of pools
    /// never are.
    pub(crate) fn may_be_type(&self, address: u64) -> bool {
        let entry = self.directory.get(address);
        let fits = |slot: Slot| address - slot.start <= MOST_BEFORE_TYPE && slot.end - address >= LEAST_TYPE;
        match Self::number(entry).and_then(|number| self.spans.get(number)) {
            Some(span) => !span.is_pool() && Self::slot_in(span, address).is_some_and(fits),
            None => entry != EXPECTED,
        }
    }

    /// The number of the block that `address` lies in, and where it begins. Where it ends is seldom asked for.
    #[inline]
    fn begin_in(span: &Span, address: u64) -> Option<(u32, u64)> {
        match &span.shape {
            Shape::Heap(starts) if (span.start..span.end).contains(&address) => {
                let (number, begin) = Self::chunk_at(span, starts, address)?;
                let start = span.start + begin as u64 * 16 + CHUNK_HEAD;
                (start <= address).then_some((span.first + number, start))
            }
            Shape::Heap(_) => None,
            Shape::Pool { .. } | Shape::Single | Shape::Shared => {
                Self::slot_in(span, address).map(|slot| (slot.id, slot.start))
            }
        }
    }

    /// The number of the chunk that `address` lies in, and the bit it begins at.
    #[inline]
    fn chunk_at(span: &Span, starts: &Ranked, address: u64) -> Option<(u32, usize)> {
        let at = ((address - span.start) / 16) as usize;
        let number = starts.rank(at).checked_sub(1)?;
        Some((number, starts.before(at, number)?))
    }

    fn slot_in(span: &Span, address: u64) -> Option<Slot> {
        if address < span.start || address >= span.end {
            return None;
        }
        match &span.shape {
            Shape::Pool { block } => {
                let offset = (address - span.start).checked_sub(POOL_HEAD)? as u32;
                let number = offset / block;
                (number < span.slots).then(|| pool_slot(span.start, span.first + number, number, *block))
            }
            Shape::Heap(starts) => {
                let (number, begin) = Self::chunk_at(span, starts, address)?;
                Some(Self::chunk(span, starts, begin, number)).filter(|slot| slot.start <= address)
            }
            Shape::Single => {
                let start = span.start + CHUNK_HEAD;
                (address >= start).then_some(Slot { id: span.first, start, end: span.end })
            }
            Shape::Shared => Some(Slot { id: span.first, start: span.start, end: span.end }),
        }
    }

    /// The chunk of number `number` that begins at bit `begin`.
    fn chunk(span: &Span, starts: &Ranked, begin: usize, number: u32) -> Slot {
        let start = span.start + begin as u64 * 16 + CHUNK_HEAD;
        let next = starts.after(begin, number + 1);
        let end = next.map_or(span.end, |next| span.start + next as u64 * 16 + CHUNK_TAIL);
        Slot { id: span.first + number, start, end: end.max(start) }
    }

    /// The block of number `id`.
    pub(crate) fn slot(&self, id: u32) -> Option<Slot> {
        self.slot_near(id, &mut Near::default())
    }

    /// The same for those who go over blocks in ascending order: looks where the last one was first.
    pub(crate) fn slot_near(&self, id: u32, near: &mut Near) -> Option<Slot> {
        if id as usize >= self.tags.len() {
            return None;
        }
        let holds = |span: &Span| span.first <= id && id < span.first + span.slots;
        let found = [near.span, near.span + 1].into_iter().find(|at| self.spans.get(*at).is_some_and(holds));
        let at = match found {
            Some(at) => at,
            None => self.spans.partition_point(|span| span.first <= id).checked_sub(1)?,
        };
        if at != near.span {
            *near = Near { span: at, chunk: None };
        }
        let span = self.spans.get(at)?;
        match &span.shape {
            Shape::Pool { block } => Some(pool_slot(span.start, id, id - span.first, *block)),
            Shape::Heap(starts) => {
                let number = id - span.first;
                let begin = starts.select_after(near.chunk, number)?;
                near.chunk = Some((number, begin));
                Some(Self::chunk(span, starts, begin, number))
            }
            Shape::Single => Some(Slot { id, start: span.start + CHUNK_HEAD, end: span.end }),
            Shape::Shared => Some(Slot { id, start: span.start, end: span.end }),
        }
    }

    /// Where what the last block lies in ends.
    pub(crate) fn end_near(&self, near: &Near) -> u64 {
        self.spans.get(near.span).map_or(u64::MAX, |span| span.end)
    }
}

fn pool_slot(start: u64, id: u32, number: u32, block: u32) -> Slot {
    let start = start + POOL_HEAD + u64::from(number) * u64::from(block);
    Slot { id, start, end: start + u64::from(block) }
}

/// The chunks of a heap while it is walked.
#[derive(Default)]
pub(crate) struct HeapSlots {
    bits: Vec<u64>,
    pub(crate) tags: Tags,
}

impl HeapSlots {
    /// For a heap of `length` bytes.
    pub(crate) fn new(length: u64) -> Self {
        Self { bits: vec![0; (length / 1024 + 1) as usize], tags: Tags::default() }
    }

    /// A chunk that begins `offset` bytes into the heap, after all others.
    pub(crate) fn push(&mut self, offset: u64, tag: Tag) {
        if let Some(word) = self.bits.get_mut((offset / 1024) as usize) {
            *word |= 1 << (offset / 16 % 64);
            self.tags.push(tag);
        }
    }

    /// Whether a type could be `offset` bytes into the heap, where all chunks up to there are known: near the beginning of one that
    /// is large enough.
    pub(crate) fn may_be_type(&self, offset: u64) -> bool {
        let begins =
            |at: &u64| self.bits.get((at / 64) as usize).is_some_and(|bits| bits >> (at % 64) & 1 == 1);
        let place = offset / 16;
        let mut before = (place.saturating_sub((CHUNK_HEAD + MOST_BEFORE_TYPE) / 16)..=place).rev();
        let begin = before.find(begins).filter(|begin| begin * 16 + CHUNK_HEAD <= offset);
        begin.is_some() && !(place + 1..place + LEAST_TYPE / 16).any(|at| begins(&at))
    }

    /// Forgets all chunks that begin at or after `offset`, of which `keep` are before it.
    pub(crate) fn truncate(&mut self, offset: u64, keep: usize) {
        let word = (offset / 1024) as usize;
        if let Some(first) = self.bits.get_mut(word) {
            *first &= (1 << (offset / 16 % 64)) - 1;
        }
        self.bits.iter_mut().skip(word + 1).for_each(|bits| *bits = 0);
        self.tags.truncate(keep);
    }
}
