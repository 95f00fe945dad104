//! Blocks to look at next, as bits: each once, in the order of their addresses, for an eighth of a byte each.

/// A set of block numbers that is emptied in ascending order.
#[derive(Default)]
pub(crate) struct Frontier {
    bits: Vec<u64>,
    /// A bit for each word of `bits` that is not 0.
    filled: Vec<u64>,
    count: u64,
    /// The first ones that were added: all of them, while they are few.
    few: Vec<u32>,
}

/// So many blocks are found without a look at all the bits: a long chain has one on each level.
const FEW: usize = 64;

impl Frontier {
    /// For blocks below `slots`.
    pub(crate) fn new(slots: usize) -> Self {
        let words = slots / 64 + 1;
        Self { bits: vec![0; words], filled: vec![0; words / 64 + 1], count: 0, few: Vec::new() }
    }

    /// There are more blocks now.
    pub(crate) fn grow(&mut self, slots: usize) {
        let words = slots / 64 + 1;
        if words > self.bits.len() {
            self.bits.resize(words, 0);
            self.filled.resize(words / 64 + 1, 0);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.bits.get(id as usize / 64).is_some_and(|bits| bits >> (id % 64) & 1 == 1)
    }

    /// Adds a block. One that does not exist is none.
    #[inline]
    pub(crate) fn insert(&mut self, id: u32) {
        let word = id as usize / 64;
        let Some(bits) = self.bits.get_mut(word) else { return };
        let new = *bits >> (id % 64) & 1 == 0;
        self.count += u64::from(new);
        if new && self.few.len() < FEW {
            self.few.push(id);
        }
        *bits |= 1 << (id % 64);
        self.filled[word / 64] |= 1 << (word % 64);
    }

    /// Takes one block out. Says whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) -> bool {
        self.contains(id) && self.take(id) == Some(id)
    }

    /// Takes all blocks out, in ascending order.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(u32)) {
        let mut few = std::mem::take(&mut self.few);
        if few.len() as u64 == self.count {
            few.sort_unstable();
            few.drain(..).filter(|id| self.remove(*id)).for_each(&mut each);
        }
        let mut from = 0;
        while !self.is_empty()
            && let Some(id) = self.take(from)
        {
            from = id + 1;
            each(id);
        }
        few.clear();
        self.few = few;
    }

    /// Takes the lowest block at or above `from`. Asked with ever larger numbers, it goes over the set once.
    pub(crate) fn take(&mut self, from: u32) -> Option<u32> {
        let mut word = from as usize / 64;
        let here = self.bits.get(word)? >> (from % 64) << (from % 64);
        let bits = if here == 0 {
            word = self.next_filled(word + 1)?;
            self.bits[word]
        } else {
            here
        };
        let bit = bits.trailing_zeros();
        self.bits[word] &= !(1 << bit);
        if self.bits[word] == 0 {
            self.filled[word / 64] &= !(1 << (word % 64));
        }
        self.count -= 1;
        Some((word * 64) as u32 + bit)
    }

    fn next_filled(&self, from: usize) -> Option<usize> {
        let first = self.filled.get(from / 64)? >> (from % 64) << (from % 64);
        let rest = self.filled.iter().enumerate().skip(from / 64 + 1);
        std::iter::once((from / 64, &first))
            .chain(rest)
            .find(|(_, words)| **words != 0)
            .map(|(at, words)| at * 64 + words.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn drained(frontier: &mut Frontier) -> Vec<u32> {
        let mut all = Vec::new();
        frontier.drain(|id| all.push(id));
        all
    }

    proptest! {
        #[test]
        fn each_block_comes_out_once_and_in_order(ids in proptest::collection::vec(0_u32..40_000, 0..300)) {
            let mut frontier = Frontier::new(40_000);
            ids.iter().for_each(|id| frontier.insert(*id));
            let wanted: BTreeSet<u32> = ids.into_iter().collect();
            prop_assert_eq!(frontier.is_empty(), wanted.is_empty());
            prop_assert!(wanted.iter().all(|id| frontier.contains(*id)));
            for id in wanted.iter().step_by(3) {
                prop_assert!(frontier.remove(*id) && !frontier.contains(*id) && !frontier.remove(*id));
                frontier.insert(*id);
            }
            prop_assert_eq!(drained(&mut frontier), wanted.into_iter().collect::<Vec<_>>());
            prop_assert!(frontier.is_empty() && drained(&mut frontier).is_empty());
            for few in [[7, 3, 9], [3, 5000, 1]] {
                few.iter().for_each(|id| frontier.insert(*id));
                let mut sorted = few.to_vec();
                sorted.sort_unstable();
                prop_assert_eq!(drained(&mut frontier), sorted);
            }
        }
    }

    #[test]
    fn a_block_that_does_not_exist_is_left_out() {
        let mut frontier = Frontier::new(10);
        frontier.insert(u32::MAX);
        assert!(frontier.is_empty() && !frontier.contains(u32::MAX));
        assert_eq!(frontier.take(u32::MAX), None);
    }
}
