//! A few objects of every type, taken before it is known which types matter.
//!
//! Why before: what leads nowhere is not remembered by `edges.rs`, and a text or a number leads nowhere. Those that a climb
//! may start from are chosen while the objects are counted, and kept. By bytes, evenly over all objects of the type, whatever their number.

use crate::edges::Edges;
use crate::index::{Home, Index, Look, Pool, Slot, Tag, Visit, object_of};

/// Objects kept of a type.
const MOST: usize = 64;
/// Kinds of blocks of a pool that are counted at once.
const COUNTS: usize = 16;

/// The samples of all types.
pub(crate) struct Samples {
    /// By type, ascending.
    kinds: Kinds,
}

/// Takes one at every `step` bytes; when there are too many the step grows, and those that are nearer to each other go.
#[derive(Clone, Default)]
struct Thinned {
    step: u64,
    passed: u64,
    next: u64,
    /// Blocks, and the bytes up to their end.
    kept: Vec<(u32, u64)>,
}

impl Thinned {
    /// Says whether it was taken.
    #[inline]
    fn pass(&mut self, id: u32, bytes: u64, gone: &mut Vec<u32>) -> bool {
        self.passed += bytes;
        let near = self.passed >= self.next;
        if near {
            self.take(id, gone);
        }
        near
    }

    /// Whether none of `bytes` more would be taken.
    fn is_far(&self, bytes: u64) -> bool {
        self.passed + bytes < self.next
    }

    /// Takes it. Those that go for it are added to `gone`.
    fn take(&mut self, id: u32, gone: &mut Vec<u32>) {
        if self.kept.len() == MOST {
            self.step = (self.step * 2).max(self.passed / (MOST as u64 / 2));
            let kept = spaced(&self.kept, self.step);
            let went = self.kept.iter().filter(|old| kept.binary_search(old).is_err());
            gone.extend(went.map(|(id, _)| *id));
            self.kept = kept;
        }
        self.kept.push((id, self.passed));
        self.next = self.passed + self.step;
    }

    /// About `count` of them, evenly by bytes.
    fn some(&self, count: usize) -> Vec<(u32, u64)> {
        let step = self.passed / count.max(1) as u64;
        spaced(&self.kept, step / 2)
    }
}

/// Those that are at least `step` bytes behind the one before.
fn spaced(kept: &[(u32, u64)], step: u64) -> Vec<(u32, u64)> {
    let mut next = 0;
    let far = |(_, at): &&(u32, u64)| {
        let far = *at >= next;
        if far {
            next = at + step;
        }
        far
    };
    kept.iter().filter(far).copied().collect()
}

/// By type.
#[derive(Default)]
struct Kinds {
    all: Vec<Thinned>,
    /// Taken lately.
    fresh: Vec<u32>,
    /// Taken once, and not kept.
    gone: Vec<u32>,
}

impl Kinds {
    fn grow(&mut self, types: usize) {
        if types > self.all.len() {
            self.all.resize(types, Thinned::default());
        }
    }

    #[inline]
    fn pass(&mut self, id: u32, tag: Tag, bytes: u64) {
        let kind = object_of(tag).and_then(|kind| self.all.get_mut(kind as usize));
        if kind.is_some_and(|kind| kind.pass(id, bytes, &mut self.gone)) {
            self.fresh.push(id);
        }
    }

    fn of(&mut self, tag: Tag) -> Option<&mut Thinned> {
        object_of(tag).and_then(|kind| self.all.get_mut(kind as usize))
    }
}

impl Visit for Kinds {
    fn pool(&mut self, bytes: u64, tags: &[(Tag, u32)]) -> Look {
        let mut far = |(tag, count): &(Tag, u32)| {
            self.of(*tag).is_none_or(|kind| kind.is_far(bytes * u64::from(*count)))
        };
        if !tags.iter().all(&mut far) {
            return Look::Closer;
        }
        for (tag, count) in tags {
            self.of(*tag).into_iter().for_each(|kind| kind.passed += bytes * u64::from(*count));
        }
        Look::Pass
    }

    fn block(&mut self, slot: Slot, tag: Tag, _: Home) {
        self.pass(slot.id, tag, slot.end - slot.start);
    }
}

impl Samples {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { kinds: Kinds::default() }
    }

    /// Goes over all objects that are there; `types` is how many types there are.
    pub(crate) fn take(&mut self, index: &Index, types: usize, edges: &mut Edges) {
        self.kinds.grow(types);
        index.visit(&mut self.kinds);
        self.ask(edges);
    }

    /// Goes over the objects of one more pool.
    pub(crate) fn take_pool(&mut self, pool: &Pool, tags: &[Tag], types: usize) {
        self.kinds.grow(types);
        let bytes = u64::from(pool.block);
        let mut counts: [(Tag, u32); COUNTS] = [(0, 0); COUNTS];
        let mut few = true;
        for tag in tags {
            let place = &mut counts[usize::from(*tag) % COUNTS];
            few &= place.0 == *tag || place.1 == 0;
            *place = (*tag, place.1 + 1);
        }
        if few && self.kinds.pool(bytes, &counts) == Look::Pass {
            return;
        }
        for (id, tag) in (pool.first..).zip(tags) {
            self.kinds.pass(id, *tag, bytes);
        }
    }

    /// Those that were taken since the last time are asked for, and some no longer are.
    pub(crate) fn ask(&mut self, edges: &mut Edges) {
        self.kinds.fresh.drain(..).for_each(|id| edges.ask(id));
        self.kinds.gone.drain(..).for_each(|id| edges.ask_no_more(id));
    }

    /// About `count` of one type.
    pub(crate) fn of(&self, index: &Index, kind: u32, count: usize) -> Vec<Slot> {
        let kept = self.kinds.all.get(kind as usize).map(|kind| kind.some(count)).unwrap_or_default();
        kept.iter().filter_map(|(id, _)| index.slot(*id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_few_and_spread_over_all() {
        for count in [1_u32, 63, 64, 65, 1000, 100_000] {
            let mut thinned = Thinned::default();
            (0..count).for_each(|id| {
                thinned.pass(id, 48, &mut Vec::new());
            });
            let kept: Vec<u32> = thinned.some(48).iter().map(|(id, _)| *id).collect();
            assert!(kept.len() as u32 >= count.min(MOST as u32 / 3) && kept.len() <= MOST, "{}", kept.len());
            assert!(kept.is_sorted_by(|one, next| one < next));
            assert!(kept.iter().any(|id| *id >= count / 10 * 8), "the last are among {count}");
        }
    }

    #[test]
    fn a_few_large_ones_weigh_more_than_many_small_ones() {
        let mut thinned = Thinned::default();
        (0..50_020_u32).for_each(|id| {
            thinned.pass(id, if id < 50_000 { 40 } else { 10 << 20 }, &mut Vec::new());
        });
        let kept = thinned.some(48);
        let large = kept.iter().filter(|(id, _)| *id >= 50_000).count();
        assert!(large == 20 && kept.len() < 24, "{kept:?}");
    }
}
