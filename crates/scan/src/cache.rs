//! Freed chunks that look like chunks in use: thread caches and fast bins.
//!
//! A thread's cache is a chunk itself: heads of lists, one for each size, each a chunk of just that size. That is how
//! it is recognised; a chunk whose lists do not lead to chunks of the right sizes is no cache.

use crate::index::{CACHED, CHUNK_HEAD, CHUNK_TAIL, Index, RAW, Slot};
use crate::reader::{Reader, plausible, word};

/// Sizes of a cache's chunk: glibc 2.26 to 2.29, to 2.41, and later ones.
pub(crate) const SIZES: [u64; 3] = [0x250, 0x290, 0x300];
const LISTS: u64 = 64;
const FAST_BINS: u64 = 10;
/// Entries of one list that are followed.
const LONGEST: usize = 4096;

/// Marks what caches hold. Gives the bytes freed that way.
pub(crate) fn mark_cached(reader: &Reader<'_>, index: &Index, candidates: &[(u64, u64)]) -> u64 {
    candidates.iter().map(|(chunk, size)| thread_cache(reader, index, *chunk + CHUNK_HEAD, *size)).sum()
}

fn thread_cache(reader: &Reader<'_>, index: &Index, at: u64, size: u64) -> u64 {
    // The counters before the lists: a byte each, two bytes each, or two bytes for each of 76.
    let lists = at
        + match size {
            0x250 => 64,
            0x290 => 128,
            _ => 152,
        };
    let mut bytes = [0; LISTS as usize * 8];
    if !reader.cached(lists, &mut bytes) {
        return 0;
    }
    let heads: Vec<u64> = (0..LISTS as usize).map(|list| word(&bytes, list * 8)).collect();
    let right = |list: usize, head: u64| chunk_of(index, head, size_of_list(list)).is_some();
    let used = heads.iter().filter(|head| **head != 0).count();
    if used == 0 || !heads.iter().enumerate().all(|(list, head)| *head == 0 || right(list, *head)) {
        return 0;
    }
    let list = |(number, head): (usize, &u64)| follow(reader, index, *head, size_of_list(number), Link::User);
    heads.iter().enumerate().map(list).sum()
}

fn size_of_list(list: usize) -> u64 {
    32 + list as u64 * 16
}

/// Marks the fast bins of an arena.
pub(crate) fn mark_fast_bins(reader: &Reader<'_>, index: &Index, arena: u64) -> u64 {
    (0..FAST_BINS)
        .map(|bin| {
            let head = reader.word(arena + 16 + bin * 8).unwrap_or(0);
            if head == 0 {
                0
            } else {
                follow(reader, index, head.wrapping_add(CHUNK_HEAD), 32 + bin * 16, Link::Chunk)
            }
        })
        .sum()
}

/// What a link points to: what the program got, or the chunk's head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    User,
    Chunk,
}

fn chunk_of(index: &Index, user: u64, size: u64) -> Option<Slot> {
    let slot = if plausible(user) && user.is_multiple_of(16) { index.find(user) } else { None }?;
    (slot.start == user && slot.end - slot.start + CHUNK_HEAD - CHUNK_TAIL == size).then_some(slot)
}

fn follow(reader: &Reader<'_>, index: &Index, head: u64, size: u64, link: Link) -> u64 {
    let mut freed = 0;
    let mut at = head;
    for _ in 0..LONGEST {
        let Some(slot) = chunk_of(index, at, size) else { break };
        let tag = index.tag(slot.id);
        if tag == CACHED {
            break;
        }
        // A block that reads as an object is one again: taken from the list meanwhile.
        if tag == RAW {
            index.set_tag(slot.id, CACHED);
            freed += size;
        }
        let Some(stored) = reader.word(at) else { break };
        let lead = if link == Link::Chunk { CHUNK_HEAD } else { 0 };
        // Since 2.32 links are masked with the place they are stored at.
        let masked = stored ^ (at >> 12);
        let next = [masked, stored]
            .into_iter()
            .find(|next| chunk_of(index, next.wrapping_add(lead), size).is_some());
        let Some(next) = next else { break };
        at = next.wrapping_add(lead);
    }
    freed
}

/// The main arena: the place in a library's data that knows the top of the main heap and has bins around it.
pub(crate) fn main_arena(reader: &Reader<'_>, top: u64) -> Option<u64> {
    const LARGEST: u64 = 4 << 20;
    let writable =
        reader.memory().mappings().iter().filter(|map| map.readable && map.writable && !map.shared);
    let data = writable.filter(|map| map.inode != 0 && map.end - map.start <= LARGEST);
    let mut ranges: Vec<&crate::Mapping> = data.collect();
    // The C library's own data first: in nearly every process that ends the search at once.
    ranges.sort_by_key(|map| !map.name.rsplit('/').next().is_some_and(|file| file.starts_with("libc")));
    ranges.iter().find_map(|map| {
        let runs = reader.memory().present(map.start, map.end);
        runs.iter().find_map(|(start, end)| {
            let mut bytes = vec![0; (end - start) as usize];
            let got = reader.fill(*start, &mut bytes);
            let at = (0..got.saturating_sub(128)).step_by(8).find(|at| {
                let place = start + *at as u64;
                word(&bytes, *at) == top && bin_links(&bytes, *at, place)
            })?;
            (start + at as u64).checked_sub(96)
        })
    })
}

/// The first bins after the top: each links to chunks, or to itself when it is empty.
fn bin_links(bytes: &[u8], at: usize, place: u64) -> bool {
    (0..4).all(|bin| {
        let (forward, back) = (word(bytes, at + 16 + bin * 16), word(bytes, at + 24 + bin * 16));
        let own = place + bin as u64 * 16;
        (forward == own && back == own) || (plausible(forward) && plausible(back) && forward % 16 == 0)
    })
}
