//! Pools of Python's small-block allocator, recognised by their own consistency.
//!
//! No radix tree and no arena table is needed: a pool's head says its size class, how many blocks are out, where the
//! free list begins and how far the pool was ever used, and all of that must agree.

use crate::index::{FREE, Index, POOL_HEAD, RAW, Tag};
use crate::reader::{Reader, half, word};
use crate::tags::PoolTags;
use crate::types::Types;

/// What a pool's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolHead {
    /// Bytes of a block.
    pub(crate) block: u32,
    /// Blocks out.
    live: u32,
    /// Blocks that were ever out.
    used: u32,
    first_free: u64,
}

impl PoolHead {
    /// Reads the head of a pool at `address`; nothing where it does not agree with itself.
    pub(crate) fn read(bytes: &[u8], address: u64, pool: u64) -> Option<Self> {
        let class = half(bytes, 36);
        if bytes.len() < POOL_HEAD as usize || class >= 32 {
            return None;
        }
        let block = (class + 1) * 16;
        let (next, last) = (half(bytes, 40), half(bytes, 44));
        let used = next.checked_sub(POOL_HEAD as u32)?;
        if u64::from(last) != pool - u64::from(block)
            || u64::from(next) > pool
            || used % block != 0
            || used == 0
        {
            return None;
        }
        let (live, used, first_free) = (half(bytes, 0), used / block, word(bytes, 8));
        let inside = first_free >= address + POOL_HEAD && first_free < address + pool;
        let full = first_free == 0 && live == used && next > last;
        (live <= used && (inside || full)).then_some(Self { block, live, used, first_free })
    }

    /// Bytes up to the end of the last block that was ever out.
    pub(crate) fn used_bytes(&self) -> usize {
        POOL_HEAD as usize + self.used as usize * self.block as usize
    }
}

/// Where a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: u64,
    /// Bytes of every pool of this interpreter.
    pub(crate) size: u64,
}

/// A pool read whole.
pub(crate) enum PoolRead {
    /// The head, and bytes of blocks that were out but not resident.
    Whole(PoolHead, u64),
    /// Free list and counter do not agree: it changed while it was read.
    Torn,
    /// No pool any more.
    Gone,
}

/// Puts the tags of a pool's blocks into `tags`.
///
/// `bytes` may end early where pages were never touched: a block can be out and its last page untouched.
pub(crate) fn read_pool(
    bytes: &[u8],
    place: Place,
    types: &mut Types<'_>,
    index: &Index,
    tags: &mut PoolTags,
) -> PoolRead {
    let address = place.address;
    let Some(head) = PoolHead::read(bytes, address, place.size) else { return PoolRead::Gone };
    tags.begin(head.used as usize, RAW);
    let free = mark_free(bytes, address, head, &mut tags.tags);
    if head.used - free != head.live {
        return PoolRead::Torn;
    }
    let size = head.block as usize;
    let room = types.room_for_objects(head.block.into());
    let mut at = address + POOL_HEAD;
    let mut blocks = bytes[POOL_HEAD as usize..].chunks_exact(size);
    tags.tell(|tag| {
        // The last ones may not be there.
        let (block, here) = (blocks.next(), at);
        at += size as u64;
        match (block, room) {
            (Some(block), Some(room)) if tag == RAW => {
                types.object(block, (here, room), index).unwrap_or(RAW)
            }
            _ => tag,
        }
    });
    let absent = head.used_bytes().saturating_sub(bytes.len());
    PoolRead::Whole(head, if absent > size { absent as u64 } else { 0 })
}

/// Follows the free list and gives its length. A list that leaves the pool or comes back ends there.
fn mark_free(bytes: &[u8], address: u64, head: PoolHead, tags: &mut [Tag]) -> u32 {
    let mut count = 0;
    let mut at = head.first_free;
    while at != 0 {
        let Some(offset) =
            at.checked_sub(address + POOL_HEAD).filter(|offset| offset % u64::from(head.block) == 0)
        else {
            break;
        };
        match tags.get_mut((offset / u64::from(head.block)) as usize) {
            Some(tag) if *tag != FREE => *tag = FREE,
            _ => break,
        }
        count += 1;
        at = word(bytes, (at - address) as usize);
    }
    count
}

/// Reads a pool again into `bytes` until it agrees with itself. Also gives how many bytes there were, and how often it was read.
pub(crate) fn read_again(
    (reader, place): (&Reader<'_>, Place),
    types: &mut Types<'_>,
    index: &Index,
    tags: &mut PoolTags,
    bytes: &mut [u8],
) -> (PoolRead, usize, u64) {
    const TRIES: u64 = 16;
    let (mut read, mut got) = (PoolRead::Gone, 0);
    for tries in 1..=TRIES {
        got = reader.fill(place.address, bytes);
        read = read_pool(&bytes[..got], place, types, index, tags);
        if !matches!(read, PoolRead::Torn) {
            return (read, got, tries);
        }
    }
    (read, got, TRIES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::Dump;
    use crate::types::Version;
    use proptest::prelude::*;

    const AT: u64 = 0x7000_0000_4000;

    fn pool(class: u32, live: u32, used: u32, free: u64) -> Vec<u8> {
        let mut bytes = vec![0_u8; 4096];
        let block = (class + 1) * 16;
        bytes[..4].copy_from_slice(&live.to_le_bytes());
        bytes[8..16].copy_from_slice(&free.to_le_bytes());
        bytes[36..40].copy_from_slice(&class.to_le_bytes());
        bytes[40..44].copy_from_slice(&(48 + used * block).to_le_bytes());
        bytes[44..48].copy_from_slice(&(4096 - block).to_le_bytes());
        bytes
    }

    fn tags_of(bytes: &[u8]) -> (PoolRead, Vec<Tag>) {
        let dump = Dump::default();
        let reader = Reader::new(&dump);
        let mut types = Types::new(&reader, Version(3, 9), 0, 0);
        let mut tags = PoolTags::default();
        let read =
            read_pool(bytes, Place { address: AT, size: 4096 }, &mut types, &Index::default(), &mut tags);
        (read, tags.tags)
    }

    #[test]
    fn free_blocks_are_those_on_the_list() {
        let mut bytes = pool(3, 2, 4, AT + 48 + 64);
        bytes[48 + 64..48 + 72].copy_from_slice(&(AT + 48 + 192).to_le_bytes());
        let (read, tags) = tags_of(&bytes);
        assert!(matches!(read, PoolRead::Whole(head, 0) if head.block == 64));
        assert_eq!(tags, [RAW, FREE, RAW, FREE]);
    }

    #[test]
    fn a_counter_that_disagrees_with_the_list_is_torn_and_a_loop_ends() {
        let mut bytes = pool(3, 1, 4, AT + 48 + 64);
        assert!(matches!(tags_of(&bytes).0, PoolRead::Torn));
        bytes[48 + 64..48 + 72].copy_from_slice(&(AT + 48 + 64).to_le_bytes());
        assert!(matches!(tags_of(&bytes).0, PoolRead::Torn));
    }

    #[test]
    fn a_page_of_zeros_and_a_page_of_text_are_no_pools() {
        assert_eq!(PoolHead::read(&[0; 4096], AT, 4096), None);
        assert_eq!(PoolHead::read(&[b'x'; 4096], AT, 4096), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_pool_or_not(bytes in proptest::collection::vec(any::<u8>(), 4096), class in 0_u32..34, live in 0_u32..300, used in 0_u32..260, free in 0_u64..5000) {
            let mut page = pool(class.min(40), live, used.min(200), AT + free);
            page[48..].copy_from_slice(&bytes[48..]);
            let (_, tags) = tags_of(&page);
            prop_assert!(tags.len() <= 253);
        }
    }
}
