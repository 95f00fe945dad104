//! Bits that can be counted: how many are set before a place, and where the one of a given number is.
//!
//! Half as much again as the bits themselves, so that one word of them has to be counted: the chunks of a heap (one bit for each 16 bytes) and the blocks that lead to others.

/// Bits, and how many are set before each word of them.
#[derive(Debug, Default)]
pub(crate) struct Ranked {
    pub(crate) bits: Vec<u64>,
    before: Vec<u32>,
}

/// Words that are looked at one by one before a bit is searched by its number.
const LOOK: usize = 32;

impl Ranked {
    pub(crate) fn new(bits: Vec<u64>) -> Self {
        let mut sum = 0;
        let before = bits.iter().map(|word| {
            let before = sum;
            sum += word.count_ones();
            before
        });
        let before = before.collect();
        Self { bits, before }
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        (self.bits.capacity() * 8 + self.before.capacity() * 4) as u64
    }

    /// How many bits are set.
    pub(crate) fn len(&self) -> usize {
        self.bits.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// The number of the bit at `at`, where it is set.
    #[inline]
    pub(crate) fn number(&self, at: u32) -> Option<u32> {
        let set = self.bits.get(at as usize / 64).is_some_and(|bits| bits >> (at % 64) & 1 == 1);
        set.then(|| self.rank(at as usize) - 1)
    }

    /// How many begin at or before bit `at`.
    #[inline]
    pub(crate) fn rank(&self, at: usize) -> u32 {
        let word = at / 64;
        self.before[word] + (self.bits[word] & (u64::MAX >> (63 - at % 64))).count_ones()
    }

    /// The last bit set at or before `at`, of number `number`: mostly in the same word, or not far before.
    pub(crate) fn before(&self, at: usize, number: u32) -> Option<usize> {
        let bits = self.bits[at / 64] & (u64::MAX >> (63 - at % 64));
        if bits != 0 {
            return Some(at / 64 * 64 + 63 - bits.leading_zeros() as usize);
        }
        let near =
            self.bits[(at / 64).saturating_sub(LOOK)..at / 64].iter().rev().position(|bits| *bits != 0);
        match near.map(|back| at / 64 - 1 - back) {
            Some(word) => Some(word * 64 + 63 - self.bits[word].leading_zeros() as usize),
            None => self.select(number),
        }
    }

    /// The first bit set after `at`, of number `number`.
    pub(crate) fn after(&self, at: usize, number: u32) -> Option<usize> {
        let next = at + 1;
        let rest = self.bits.get(next / 64).map_or(0, |bits| bits >> (next % 64));
        if rest != 0 {
            return Some(next + rest.trailing_zeros() as usize);
        }
        let mut ahead = self.bits.get(next / 64 + 1..).unwrap_or_default().iter().take(LOOK);
        match ahead.position(|bits| *bits != 0).map(|on| next / 64 + 1 + on) {
            Some(word) => Some(word * 64 + self.bits[word].trailing_zeros() as usize),
            None => self.select(number),
        }
    }

    /// The bit of number `number`, when the place of one not far before it is known.
    pub(crate) fn select_after(&self, known: Option<(u32, usize)>, number: u32) -> Option<usize> {
        const FAR: u32 = 256;
        let Some((before, at)) = known.filter(|(before, _)| number >= *before && number - before < FAR)
        else {
            return self.select(number);
        };
        let mut left = number - before;
        let mut word = at / 64;
        let mut bits = self.bits.get(word)? >> (at % 64) << (at % 64);
        while left >= bits.count_ones() {
            left -= bits.count_ones();
            word += 1;
            bits = *self.bits.get(word)?;
        }
        (0..left).for_each(|_| bits &= bits - 1);
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The bit of number `number`.
    pub(crate) fn select(&self, number: u32) -> Option<usize> {
        let word = self.before.partition_point(|before| *before <= number).checked_sub(1)?;
        let mut bits = *self.bits.get(word)?;
        let left = number - self.before[word];
        (left < bits.count_ones()).then(|| {
            (0..left).for_each(|_| bits &= bits - 1);
            word * 64 + bits.trailing_zeros() as usize
        })
    }
}
