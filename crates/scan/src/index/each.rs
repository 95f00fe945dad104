//! Ways over all blocks of an index, in the order of their addresses: all of them, or only where something is to be found.

use super::{
    CHUNK_HEAD, CHUNK_TAIL, Home, Index, Leads, Near, POOL_HEAD, RAW, Shape, Slot, Span, Tag, object_of,
    owner_of, pool_slot,
};
use crate::ranked::Ranked;
use std::ops::Range;

/// Goes over all blocks, and over whole pools at once.
pub(crate) trait Visit {
    /// A pool with blocks of so many bytes, and how many blocks have which tag.
    fn pool(&mut self, bytes: u64, tags: &[(Tag, u32)]);
    /// A block that is in no pool.
    fn block(&mut self, slot: Slot, tag: Tag, home: Home);
}

/// A pool of the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) number: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Bytes of a block.
    pub(crate) block: u32,
    /// Number of the first block, and how many there are.
    pub(crate) first: u32,
    pub(crate) slots: u32,
}

impl Pool {
    /// The numbers of its blocks.
    pub(crate) fn blocks(&self) -> Range<u32> {
        self.first..self.first + self.slots
    }

    /// Where a block begins.
    #[inline]
    pub(crate) fn start_of(&self, number: u32) -> u64 {
        self.start + POOL_HEAD + u64::from(number) * u64::from(self.block)
    }
}

impl Index {
    /// Has every pool and block visited.
    pub(crate) fn visit(&self, visitor: &mut impl Visit) {
        let mut tags: Vec<(Tag, u32)> = Vec::new();
        for span in &self.spans {
            if let Shape::Pool { block } = span.shape {
                tags.clear();
                self.tags.counts(span.first, span.slots, |tag, count| {
                    match tags.iter_mut().find(|(known, _)| *known == tag) {
                        Some((_, sum)) => *sum += count,
                        None => tags.push((tag, count)),
                    }
                });
                visitor.pool(u64::from(block), &tags);
            } else {
                self.for_each_of(std::iter::once(span), |slot, tag, home| visitor.block(slot, tag, home));
            }
        }
    }

    /// Calls `each` with every block that has one of the wanted tags, without the pools of which no block leads anywhere.
    pub(crate) fn for_each_wanted(
        &self,
        wanted: impl Fn(Tag) -> bool,
        mut each: impl FnMut(Slot, Tag, Home),
    ) {
        for (number, span) in self.spans.iter().enumerate() {
            if span.leads != Leads::Nowhere {
                self.for_each_wanted_of((number, span), &wanted, &mut each);
            }
        }
    }

    /// Calls `each` with every slot in ascending order.
    pub(crate) fn for_each(&self, each: impl FnMut(Slot, Tag, Home)) {
        self.for_each_of(self.spans.iter(), each);
    }

    /// Calls `each` with every object in ascending order.
    pub(crate) fn for_each_object(&self, mut each: impl FnMut(Slot, Tag, Home)) {
        for place in self.spans.iter().enumerate() {
            self.for_each_wanted_of(place, &|tag| object_of(tag).is_some(), &mut each);
        }
    }

    /// The blocks of a span that have one of the wanted tags: few of the chunks of a heap are objects.
    fn for_each_wanted_of(
        &self,
        (number, span): (usize, &Span),
        wanted: &impl Fn(Tag) -> bool,
        each: &mut impl FnMut(Slot, Tag, Home),
    ) {
        let home = match span.shape {
            Shape::Pool { .. } => Home::Pool,
            Shape::Heap(_) => Home::Heap,
            Shape::Single => Home::Mapping,
            Shape::Shared => Home::Shared,
        };
        let mut near = Near { span: number, chunk: None };
        self.tags.each_wanted(span.first, span.slots, wanted, |id, tag| {
            self.slot_near(id, &mut near).into_iter().for_each(|slot| each(slot, tag, home));
        });
    }

    /// The pool that was added last.
    pub(crate) fn last_pool(&self) -> Option<Pool> {
        self.pool(self.spans.len().checked_sub(1)? as u32)
    }

    fn pool(&self, number: u32) -> Option<Pool> {
        let span = self.spans.get(number as usize)?;
        let Shape::Pool { block } = span.shape else { return None };
        Some(Pool { number, start: span.start, end: span.end, block, first: span.first, slots: span.slots })
    }

    /// The pool that a block is in.
    pub(crate) fn pool_of(&self, id: u32) -> Option<Pool> {
        self.pool(self.spans.partition_point(|span| span.first <= id).checked_sub(1)? as u32)
    }

    /// The numbers of heaps and mappings, in the order of their blocks. What others may write to is not read.
    pub(crate) fn outside_pools(&self) -> Vec<u32> {
        let own = |span: &Span| matches!(span.shape, Shape::Heap(_) | Shape::Single);
        let spans = (0..).zip(&self.spans);
        spans.filter(|(_, span)| own(span)).map(|(number, _)| number).collect()
    }

    /// Every object of a heap or a mapping, and its type; and where that ends.
    pub(crate) fn for_each_object_in(&self, number: u32, mut each: impl FnMut(Slot, u32, u64)) {
        let Some(span) = self.spans.get(number as usize) else { return };
        let wanted = |tag| object_of(tag).is_some();
        self.for_each_wanted_of((number as usize, span), &wanted, &mut |slot, tag, _| {
            object_of(tag).into_iter().for_each(|kind| each(slot, kind, span.end));
        });
    }

    /// Every block of a heap or a mapping that is in use and no object; and where that ends.
    pub(crate) fn for_each_native(&self, number: u32, mut each: impl FnMut(Slot, u64)) {
        let Some(span) = self.spans.get(number as usize) else { return };
        self.for_each_of(std::iter::once(span), |slot, tag, _| {
            if tag == RAW || owner_of(tag).is_some() {
                each(slot, span.end);
            }
        });
    }

    fn for_each_of<'s>(
        &'s self,
        spans: impl Iterator<Item = &'s Span>,
        mut each: impl FnMut(Slot, Tag, Home),
    ) {
        for span in spans {
            let end = span.first + span.slots;
            match &span.shape {
                Shape::Pool { block } => (span.first..end).for_each(|id| {
                    each(pool_slot(span.start, id, id - span.first, *block), self.tag(id), Home::Pool);
                }),
                Shape::Heap(starts) => self.for_each_chunk(span, starts, end, &mut each),
                Shape::Single => {
                    let slot = Slot { id: span.first, start: span.start + CHUNK_HEAD, end: span.end };
                    each(slot, self.tag(span.first), Home::Mapping);
                }
                Shape::Shared => {
                    let slot = Slot { id: span.first, start: span.start, end: span.end };
                    each(slot, self.tag(span.first), Home::Shared);
                }
            }
        }
    }

    fn for_each_chunk(&self, span: &Span, starts: &Ranked, end: u32, each: &mut impl FnMut(Slot, Tag, Home)) {
        let mut id = span.first;
        let mut begun: Option<u64> = None;
        let mut emit = |start: u64, stop: u64| {
            if id < end {
                each(Slot { id, start: start + CHUNK_HEAD, end: stop }, self.tag(id), Home::Heap);
                id += 1;
            }
        };
        for (at, bits) in starts.bits.iter().enumerate() {
            let mut rest = *bits;
            while rest != 0 {
                let start = span.start + (at as u64 * 64 + u64::from(rest.trailing_zeros())) * 16;
                if let Some(last) = begun.replace(start) {
                    emit(last, start + CHUNK_TAIL);
                }
                rest &= rest - 1;
            }
        }
        if let Some(last) = begun {
            emit(last, span.end);
        }
    }
}
