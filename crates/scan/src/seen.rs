//! Which blocks of a type a scan saw: the addresses of some, so that a later scan knows which of its own are new.
//!
//! Every block has a lot: a number that its address alone decides, smaller the more bytes it has. The blocks with the smallest lots
//! are kept, and the lot from which on none is. A later scan draws the same lots: a block with a lot below that bound which is not
//! among the addresses was not there. So those are a fair sample of what is new, by bytes, wherever it lies.

use serde::{Deserialize, Serialize};

/// Blocks kept of a type.
pub(crate) const MOST: usize = 1024;
/// More addresses than these are not read from a file.
const MOST_READ: usize = 4 * MOST;
/// Addresses of blocks are multiples of this.
const GRAIN: u64 = 16;
/// Digits of a number: five bits each, the sixth says that more follow.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BITS: u32 = 5;
const MORE: u64 = 1 << BITS;

/// Some blocks of a type, in a few letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Seen {
    /// Bits of the lot from which on none was kept.
    bound: u32,
    /// Ascending.
    addresses: Vec<u64>,
}

impl Seen {
    pub(crate) fn new(bound: f32, mut addresses: Vec<u64>) -> Self {
        addresses.sort_unstable();
        Self { bound: bound.to_bits(), addresses }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// From which lot on it is not known what was there.
    pub(crate) fn bound(&self) -> f32 {
        f32::from_bits(self.bound)
    }

    /// Whether a block was there.
    pub(crate) fn has(&self, address: u64) -> bool {
        self.addresses.binary_search(&address).is_ok()
    }
}

impl From<Seen> for String {
    fn from(seen: Seen) -> Self {
        let mut text = String::new();
        write(&mut text, u64::from(seen.bound));
        let mut last = 0;
        for address in seen.addresses {
            write(&mut text, (address - last) / GRAIN);
            last = address / GRAIN * GRAIN;
        }
        text
    }
}

impl From<String> for Seen {
    /// What is no number ends it.
    fn from(text: String) -> Self {
        let mut digits = text.bytes();
        let Some(bound) = read(&mut digits).and_then(|bound| u32::try_from(bound).ok()) else {
            return Self::default();
        };
        let (mut addresses, mut last) = (Vec::new(), 0_u64);
        while addresses.len() < MOST_READ
            && let Some(at) = read(&mut digits)
                .and_then(|step| step.checked_mul(GRAIN))
                .and_then(|step| last.checked_add(step))
        {
            addresses.push(at);
            last = at;
        }
        Self { bound, addresses }
    }
}

fn write(text: &mut String, mut number: u64) {
    while number >= MORE {
        text.push(char::from(DIGITS[(number % MORE + MORE) as usize]));
        number >>= BITS;
    }
    text.push(char::from(DIGITS[number as usize]));
}

fn read(digits: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(BITS as usize) {
        let digit = digits.next()?;
        let value = DIGITS.iter().position(|known| *known == digit)? as u64;
        number |= (value % MORE) << shift;
        if value < MORE {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(bound: f32, addresses in proptest::collection::vec(0_u64..1 << 43, 0..300)) {
            let seen = Seen::new(bound, addresses.iter().map(|address| address * GRAIN).collect());
            let read = Seen::from(String::from(seen.clone()));
            prop_assert_eq!(&read, &seen);
            prop_assert!(addresses.iter().all(|address| read.has(address * GRAIN)));
            prop_assert!(!read.has(8));
        }

        #[test]
        fn no_text_is_too_strange(text: String) {
            let read = Seen::from(text);
            prop_assert!(read.addresses.is_sorted() && read.addresses.len() <= MOST_READ);
        }
    }
}
