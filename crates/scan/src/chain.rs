//! Chains of blocks that entries are put into at both ends, as a deque has them: which words of their blocks are entries.
//!
//! A block that was emptied keeps the words of what was in it, and some such blocks are kept to be used again: a queue that is empty
//! would seem to hold all that went through it. Such an object is known by what it says of itself: how many entries,
//! the first and the last block, and where in those the entries begin and end all fit each other.

use crate::climb::Ground;
use crate::index::{Slot, object_of};
use crate::links::unmarked;
use crate::reader::word;

/// Entries of a block; before them the block before it, behind them the one after it.
const ENTRIES: u64 = 64;
const ENTRIES_AT: u64 = 8;
const AFTER_AT: u64 = ENTRIES_AT + ENTRIES * 8;
const BLOCK: u64 = AFTER_AT + 8;
/// Offsets in the object: how many entries, the first and the last block, the first and the last entry's number in those.
const COUNT: u64 = 16;
const FIRST_BLOCK: usize = 8;
const LAST_BLOCK: usize = 16;
const FIRST_ENTRY: usize = 24;
const LAST_ENTRY: usize = 32;
const HEAD: u64 = 56;

/// The ends of a chain: the words between are all of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Where the object itself begins.
    at: u64,
    /// Where the first and the last block begin.
    first: u64,
    last: u64,
    /// The first word that counts in the first block, and the end of those in the last.
    from: u64,
    to: u64,
}

impl Chain {
    /// The chain of an object, if it has one.
    pub(crate) fn of(ground: &Ground<'_, '_>, slot: Slot) -> Option<Self> {
        let kind = object_of(ground.index.tag(slot.id))?;
        let at = slot.start + ground.links.get(kind)?.at;
        if slot.end.checked_sub(at)? < HEAD {
            return None;
        }
        let mut head = [0; (HEAD - COUNT) as usize];
        if !ground.reader.cached(at + COUNT, &mut head) {
            return None;
        }
        let (count, first, last) = (word(&head, 0), word(&head, FIRST_BLOCK), word(&head, LAST_BLOCK));
        let (begin, end) = (word(&head, FIRST_ENTRY), word(&head, LAST_ENTRY));
        let numbers = begin < ENTRIES && end < ENTRIES && count < 1 << 40;
        let fits = numbers
            && if first == last {
                begin + count == end + 1
            } else {
                begin + count > ENTRIES && (begin + count - 1) % ENTRIES == end && linked(ground, first, last)
            };
        if !fits || !is_block(ground, first) || !is_block(ground, last) {
            return None;
        }
        let (from, to) = (first + ENTRIES_AT + begin * 8, last + ENTRIES_AT + (end + 1) * 8);
        Some(Self { at, first, last, from, to })
    }

    /// Whether the word at `place`, in the object or one of its blocks, is one of its own.
    fn has(&self, place: u64) -> bool {
        let within = |block: u64| (block..block + BLOCK).contains(&place);
        !(within(self.first) && place < self.from || within(self.last) && place >= self.to)
    }
}

/// Whether a block of a chain begins there.
fn is_block(ground: &Ground<'_, '_>, address: u64) -> bool {
    let skip = ground.types.skip() as u64;
    let slot = ground.links.target(ground.index, address);
    slot.is_some_and(|slot| {
        object_of(ground.index.tag(slot.id)).is_none()
            && slot.start + skip == address
            && slot.end - address >= BLOCK
    })
}

/// Whether the blocks beside the ends of a chain lead back to them.
fn linked(ground: &Ground<'_, '_>, first: u64, last: u64) -> bool {
    let word = |base: u64, offset: u64| base.checked_add(offset).and_then(|at| ground.reader.word(at));
    let after = word(first, AFTER_AT).and_then(|after| word(after, 0));
    let before = word(last, 0).and_then(|before| word(before, AFTER_AT));
    after == Some(first) && before == Some(last)
}

/// Whether `block`, of the chain of `owner` or that object itself, seems to hold `below` at `place` but does not.
pub(crate) fn is_left(
    ground: &Ground<'_, '_>,
    (owner, block): (Slot, Slot),
    (below, place): (u32, u64),
) -> bool {
    let Some(chain) = Chain::of(ground, owner) else { return false };
    if block.id == owner.id {
        // Its blocks lead to each other: those that are told beside the ends are kept to be used again.
        let target = ground.reader.word(place);
        return place >= chain.at + HEAD && target.is_some_and(|target| is_block(ground, target));
    }
    let own = |at: u64| {
        let stored = ground.reader.word(at).map(unmarked);
        stored
            .and_then(|address| ground.links.target(ground.index, address))
            .is_some_and(|slot| slot.id == below)
    };
    !chain.has(place) && !(block.start..block.end & !7).step_by(8).any(|at| chain.has(at) && own(at))
}
