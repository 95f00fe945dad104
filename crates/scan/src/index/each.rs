//! Ways over all blocks of an index, in the order of their addresses: all of them, or only where something is to be found.

use super::{CHUNK_HEAD, Home, Index, Leads, Shape, Slot, Span, Tag, object_of, pool_slot};
use crate::ranked::Ranked;

/// Whether the blocks of a pool need to be looked at one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Pass,
    Closer,
}

/// Goes over all blocks, and over whole pools at once where that is enough.
pub(crate) trait Visit {
    /// A pool with blocks of so many bytes, and how many blocks have which tag.
    fn pool(&mut self, bytes: u64, tags: &[(Tag, u32)]) -> Look;
    /// A block of a pool that needs a closer look, or of anything else.
    fn block(&mut self, slot: Slot, tag: Tag, home: Home);
}

/// A pool, a heap or a mapping with objects that lead to others.
pub(crate) struct Stretch<'a> {
    span: &'a Span,
    /// Where such pools that lie directly behind it end: reading on beyond that makes no sense.
    pub(crate) far: u64,
}

impl Stretch<'_> {
    /// Start and end, of a pool.
    pub(crate) fn pool(&self) -> Option<(u64, u64)> {
        self.span.is_pool().then_some((self.span.start, self.span.end))
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
                if visitor.pool(u64::from(block), &tags) == Look::Pass {
                    continue;
                }
            }
            self.for_each_of(std::iter::once(span), |slot, tag, home| visitor.block(slot, tag, home));
        }
    }

    /// Calls `each` with every block that has one of the wanted tags, without the pools of which no block leads anywhere.
    pub(crate) fn for_each_wanted(
        &self,
        wanted: impl Fn(Tag) -> bool,
        mut each: impl FnMut(Slot, Tag, Home),
    ) {
        let spans = self.leading().filter(|span| self.tags.may_have(span.first, span.slots, &wanted));
        self.for_each_of(spans, |slot, tag, home| {
            if wanted(tag) {
                each(slot, tag, home);
            }
        });
    }

    /// Calls `each` with every slot in ascending order.
    pub(crate) fn for_each(&self, each: impl FnMut(Slot, Tag, Home)) {
        self.for_each_of(self.spans.iter(), each);
    }

    /// What has objects that lead to others.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Stretch<'_>> {
        let mut far = 0;
        let spans = self.spans.iter().enumerate().filter(|(_, span)| span.leads == Leads::Objects);
        spans.map(move |(at, span)| {
            if far <= span.start {
                let behind = self.spans[at + 1..].iter();
                let adjacent = behind.zip(&self.spans[at..]).take_while(|(next, before)| {
                    next.start == before.end && next.leads == Leads::Objects && next.is_pool()
                });
                far = adjacent.last().map_or(span.end, |(next, _)| next.end);
            }
            Stretch { span, far }
        })
    }

    /// Every object of a stretch, and its type.
    pub(crate) fn for_each_object(&self, stretch: &Stretch<'_>, mut each: impl FnMut(Slot, u32)) {
        self.for_each_of(std::iter::once(stretch.span), |slot, tag, _| {
            if let Some(kind) = object_of(tag) {
                each(slot, kind);
            }
        });
    }

    fn leading(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(|span| span.leads != Leads::Nowhere)
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
                    emit(last, start);
                }
                rest &= rest - 1;
            }
        }
        if let Some(last) = begun {
            emit(last, span.end);
        }
    }
}
