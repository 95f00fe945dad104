//! A few objects of every type, taken before it is known which types matter.
//!
//! Why before: what leads nowhere is not remembered by `edges.rs`, and a text or a number leads nowhere. Those that a climb
//! may start from are chosen now and kept. By bytes, evenly over all objects of the type, whatever their number.

use crate::frontier::Frontier;
use crate::index::{Home, Index, Look, Slot, Tag, Visit, object_of};

/// Objects kept of a type.
const MOST: usize = 64;

/// The samples of all types.
pub(crate) struct Samples {
    /// By type, ascending.
    kinds: Vec<Thinned>,
    /// All of them.
    pub(crate) asked: Frontier,
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
    #[inline]
    fn pass(&mut self, id: u32, bytes: u64) {
        self.passed += bytes;
        if self.passed >= self.next {
            self.take(id);
        }
    }

    /// Whether none of `bytes` more would be taken.
    fn is_far(&self, bytes: u64) -> bool {
        self.passed + bytes < self.next
    }

    fn take(&mut self, id: u32) {
        if self.kept.len() == MOST {
            self.step = (self.step * 2).max(self.passed / (MOST as u64 / 2));
            self.kept = spaced(&self.kept, self.step);
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
struct Kinds(Vec<Thinned>);

impl Kinds {
    fn of(&mut self, tag: Tag) -> Option<&mut Thinned> {
        object_of(tag).and_then(|kind| self.0.get_mut(kind as usize))
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
        self.of(tag).into_iter().for_each(|kind| kind.pass(slot.id, slot.end - slot.start));
    }
}

impl Samples {
    /// Goes over all objects once; `types` is how many types there are.
    pub(crate) fn take(index: &mut Index, types: usize) -> Self {
        let mut kinds = Kinds(vec![Thinned::default(); types]);
        index.visit(&mut kinds);
        let Kinds(kinds) = kinds;
        let mut asked = Frontier::new(index.slots());
        for (id, _) in kinds.iter().flat_map(|kind| &kind.kept) {
            asked.insert(*id);
            if let Some(slot) = index.slot(*id) {
                index.ask_for(slot);
            }
        }
        Self { kinds, asked }
    }

    /// About `count` of one type.
    pub(crate) fn of(&self, index: &Index, kind: u32, count: usize) -> Vec<Slot> {
        let kept = self.kinds.get(kind as usize).map(|kind| kind.some(count)).unwrap_or_default();
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
            (0..count).for_each(|id| thinned.pass(id, 48));
            let kept: Vec<u32> = thinned.some(48).iter().map(|(id, _)| *id).collect();
            assert!(kept.len() as u32 >= count.min(MOST as u32 / 3) && kept.len() <= MOST, "{}", kept.len());
            assert!(kept.is_sorted_by(|one, next| one < next));
            assert!(kept.iter().any(|id| *id >= count / 10 * 8), "the last are among {count}");
        }
    }

    #[test]
    fn a_few_large_ones_weigh_more_than_many_small_ones() {
        let mut thinned = Thinned::default();
        (0..50_000).for_each(|id| thinned.pass(id, 40));
        (50_000..50_020).for_each(|id| thinned.pass(id, 10 << 20));
        let kept = thinned.some(48);
        let large = kept.iter().filter(|(id, _)| *id >= 50_000).count();
        assert!(large == 20 && kept.len() < 24, "{kept:?}");
    }
}
