//! Words in the tables of dicts and sets that are the hash of a key.
//!
//! The hash of a number is the number, and `id(x)` is where x is: a set of ids would seem to hold all they were taken of, and so
//! would the memo of a deep copy. Such a word is known by the key beside it, a number that is the same.

use crate::climb::{Ground, object_at};
use crate::index::{Slot, object_of};
use crate::reader::plausible;
use crate::types::{Family, Version};

/// Offsets in a number: how many digits it has, and the first two of them.
const DIGITS: u64 = 16;
const FIRST: u64 = 24;
/// Bits of a digit.
const DIGIT: u32 = 30;

/// Whether the word at `place` could be the hash of a key beside it. An entry of a dict is a hash, a key and a value, one of a
/// set a key and a hash; the value that a number leads to in a dict has that number's hash before it.
pub(crate) fn may_be(ground: &Ground<'_, '_>, place: u64, stored: u64) -> bool {
    let word = |at: Option<u64>| at.and_then(|at| ground.reader.word(at));
    let number = |at: Option<u64>| word(at).and_then(|key| number(ground, key));
    number(place.checked_add(8)) == Some(stored)
        || number(place.checked_sub(8)) == Some(stored) && word(place.checked_sub(16)) != Some(stored)
}

/// The number that is an object, if it is one and could be an address.
fn number(ground: &Ground<'_, '_>, at: u64) -> Option<u64> {
    let slot: Slot = if plausible(at) { ground.index.find(at) } else { None }?;
    let found = object_of(ground.index.tag(slot.id)).and_then(|kind| ground.types.get(kind))?;
    if found.family() != Family::Int || object_at(ground, slot, found) != at {
        return None;
    }
    let told = ground.reader.word(at + DIGITS)?;
    // From 3.12 on with the sign and a mark in its lowest bits.
    let count = if ground.types.version >= Version(3, 12) { told >> 3 } else { told };
    let digits = ground.reader.word(at + FIRST)?;
    let (low, high) = (digits & u64::from(u32::MAX), digits >> 32);
    match count {
        1 => Some(low),
        2 => Some(low | high << DIGIT),
        _ => None,
    }
}
