//! The interpreter's version, and what it changes in what a block looks like.

use super::flag;
use std::cmp::Ordering;

/// The interpreter's version where it changes what a block looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(pub(crate) u8, pub(crate) u8);

/// As one number: some are compared for each block, and one by one that takes as long as all the rest of a look at it.
impl Ord for Version {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        u16::from_be_bytes([self.0, self.1]).cmp(&u16::from_be_bytes([other.0, other.1]))
    }
}

impl PartialOrd for Version {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Which bits of the word that counts references are 0 in an object that lives, of which some are set, and how many references
/// there can be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counting {
    unset: u64,
    some: u64,
    most: u64,
    never_go: u64,
}

/// From this number on an object never goes (3.12 and later).
const NEVER_GO: u64 = 1 << 31;
/// References take a word each; that many are believed however small a process is, because extensions forget to give some back.
const LEAST_MOST: u64 = 1 << 20;

impl Counting {
    pub(super) fn of(version: Version) -> Self {
        const LOW: u64 = 0xffff_ffff;
        let newer = Self { unset: !LOW, some: LOW, most: LOW, never_go: NEVER_GO };
        match version {
            // 32 bits of count, 16 that stay 0, 16 of flags.
            version if version >= Version(3, 14) => Self { unset: 0xffff << 32, ..newer },
            version if version >= Version(3, 12) => newer,
            _ => Self { unset: u64::MAX << 33, some: u64::MAX, most: u64::MAX - 1, never_go: u64::MAX },
        }
    }

    /// With all the memory that references can be in, and where the heap begins: of a program that is not relocatable that is so
    /// low that its addresses would do for numbers of references.
    pub(super) fn within(self, bytes: u64, heap: u64) -> Self {
        Self { most: (bytes / 8).min(heap.saturating_sub(1)).max(LEAST_MOST), ..self }
    }

    #[inline]
    pub(super) fn lives(self, count: u64) -> bool {
        let number = count & self.some;
        // None at all is below zero, and that is more than there can be.
        count & self.unset == 0 && (number.wrapping_sub(1) < self.most || number >= self.never_go)
    }
}

impl Version {
    /// Bytes of a pool.
    pub(crate) fn pool_bytes(self) -> u64 {
        if self >= Version(3, 10) { 16 << 10 } else { 4 << 10 }
    }

    /// Whether a type with these flags puts two words before the collector's head.
    pub(super) fn pre_header(self, flags: u64) -> bool {
        match self {
            version if version >= Version(3, 12) => flags & (flag::MANAGED_DICT | flag::MANAGED_WEAKREF) != 0,
            Version(3, 11) => flags & flag::MANAGED_DICT != 0,
            _ => false,
        }
    }

    /// How many references there are to an object, by the word it counts them in; those that never go have no number.
    pub(crate) fn references(self, stored: u64) -> u64 {
        let low = stored & 0xffff_ffff;
        match self {
            version if version < Version(3, 12) => stored,
            _ if low >= NEVER_GO => u64::MAX,
            _ => low,
        }
    }
}
