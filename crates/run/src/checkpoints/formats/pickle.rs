//! Pickles: their last byte, and the step that a checkpoint's dictionary names near its beginning.
//!
//! Nothing is executed: a key is looked for as the bytes that Python writes for it, followed by those of a whole number.

use super::{Flaw, Source};

/// How the format of torch before 1.6 begins: a pickle of a magic number.
const OLD_TORCH: &[u8] = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.";
const STOP: u8 = b'.';
/// So much of a pickle is looked at: steps stand before the weights.
const LOOKED_AT: u64 = 256 * 1024;
/// Under which keys programs keep their step, best first.
const KEYS: [&[u8]; 6] = [b"global_step", b"step", b"iteration", b"iter", b"steps", b"it"];
/// What only Lightning writes.
const LIGHTNING: &[u8] = b"pytorch-lightning_version";

/// How a pickle begins.
pub(crate) fn begins(first: &[u8]) -> bool {
    first.len() > 1 && first[0] == 0x80 && first[1] <= 5
}

/// Whether the last byte is the one that ends a pickle.
pub(crate) fn whole(source: &(impl Source + ?Sized)) -> Result<(), Flaw> {
    let mut first = [0; OLD_TORCH.len()];
    if source.fill(0, &mut first).is_ok() && first == OLD_TORCH {
        return Err(Flaw::wrong("is in the format of torch before 1.6, whose end can't be checked"));
    }
    let mut last = [0];
    source.fill(source.size().saturating_sub(1), &mut last)?;
    if last[0] == STOP { Ok(()) } else { Err(Flaw::cut("does not end as a pickle")) }
}

/// What the beginning of a pickle says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// The step.
    pub(crate) step: Option<u64>,
    /// Lightning wrote it.
    pub(crate) by_lightning: bool,
}

/// Looks for the step in the pickle that lies there.
pub(crate) fn told(source: &(impl Source + ?Sized), at: u64, bytes: u64) -> Told {
    let mut head = vec![0; bytes.min(LOOKED_AT) as usize];
    if source.fill(at, &mut head).is_err() {
        return Told::default();
    }
    let by_lightning = head.windows(LIGHTNING.len()).any(|piece| piece == LIGHTNING);
    Told { step: KEYS.iter().find_map(|key| number_after(&head, key)), by_lightning }
}

/// The whole number behind a key, as Python's pickle writes the two.
fn number_after(pickle: &[u8], key: &[u8]) -> Option<u64> {
    let short = [&[0x8c, key.len() as u8], key].concat();
    let long = [b"X", &(key.len() as u32).to_le_bytes()[..], key].concat();
    [short, long].iter().find_map(|text| {
        let found = pickle.windows(text.len()).enumerate().filter(|(_, piece)| piece == text);
        found.map(|(at, _)| &pickle[at + text.len()..]).find_map(|rest| whole_number(past_memo(rest)))
    })
}

/// Behind a text the pickler notes that it has seen it.
fn past_memo(rest: &[u8]) -> &[u8] {
    match rest {
        [0x94, rest @ ..] | [b'q', _, rest @ ..] | [b'r', _, _, _, _, rest @ ..] => rest,
        _ => rest,
    }
}

fn whole_number(rest: &[u8]) -> Option<u64> {
    match *rest {
        [b'K', number, ..] => Some(u64::from(number)),
        [b'M', low, high, ..] => Some(u64::from(u16::from_le_bytes([low, high]))),
        [b'J', a, b, c, d, ..] => u64::try_from(i32::from_le_bytes([a, b, c, d])).ok(),
        [0x8a, length @ 1..=8, ref digits @ ..] => {
            let digits = digits.get(..usize::from(length))?;
            let mut wide = [if digits.last()? & 0x80 == 0 { 0 } else { 0xff }; 8];
            wide[..digits.len()].copy_from_slice(digits);
            u64::try_from(i64::from_le_bytes(wide)).ok()
        }
        _ => None,
    }
}
