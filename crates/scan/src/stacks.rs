//! The memory where frames of running functions lie (3.11 and later), as far as it is in use.
//!
//! Each thread has a chain of stack chunks. Above the top of the newest one lie remains of functions that returned:
//! a name found there would be a lie. A thread's record holds chunk, top and limit as three words in a row, and the
//! chunk says its own size, so the record is recognised wherever it lies.

use crate::index::{Home, Index, RAW, owner_of};
use crate::reader::{Reader, Window, plausible};

/// Bytes of a chunk's head: the chunk before, its size, its top when a newer one was begun.
const HEAD: u64 = 24;
const LARGEST: u64 = 1 << 30;
const MOST_CHUNKS: usize = 1024;
/// Sizes a thread's record can have.
const RECORD: std::ops::Range<u64> = 200..8192;

/// The parts of all threads' stacks that are in use: those that begin with one of `chunks`. What belongs to no allocator is `outside`.
pub(crate) fn live_stacks(
    (reader, index): (&Reader<'_>, &Index),
    chunks: &[(u64, u64)],
    outside: &[(u64, u64)],
) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut window = Window::new(64 << 10);
    // Where all of them are known, no record of a thread is missing.
    let over = |found: &[(u64, u64)]| {
        chunks.iter().all(|chunk| found.iter().any(|(start, _)| *start == chunk.0 + HEAD))
    };
    // The first thread's record is in the interpreter's static data, the others are blocks.
    let data = reader.memory().mappings().iter().filter(|map| map.readable && map.writable && !map.shared);
    let python =
        data.filter(|map| map.inode != 0 && map.name.contains("python") && map.end - map.start < 64 << 20);
    for map in python.filter(|_| !chunks.is_empty()) {
        let runs = reader.memory().present(map.start, map.end);
        runs.iter().for_each(|range| search(reader, &mut window, *range, chunks, &mut found));
    }
    if !over(&found) {
        index.for_each(|slot, tag, home| {
            let raw = tag == RAW || owner_of(tag).is_some();
            if raw && home == Home::Heap && RECORD.contains(&(slot.end - slot.start)) {
                search(reader, &mut window, (slot.start, slot.end), chunks, &mut found);
            }
        });
    }
    for range in outside {
        if over(&found) {
            break;
        }
        search(reader, &mut window, *range, chunks, &mut found);
    }
    sorted(found)
}

fn sorted(mut found: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    found.sort_unstable();
    found.dedup();
    found
}

fn search(
    reader: &Reader<'_>,
    window: &mut Window,
    range: (u64, u64),
    chunks: &[(u64, u64)],
    found: &mut Vec<(u64, u64)>,
) {
    let (mut chunk, mut top) = (0_u64, 0_u64);
    window.words(reader, range, |_, limit| {
        let fits = chunk.is_multiple_of(4096) && plausible(chunk) && chunk + HEAD <= top && top <= limit;
        if fits
            && limit - chunk <= LARGEST
            && chunks.binary_search_by_key(&chunk, |chunk| chunk.0).is_ok()
            && reader.word(chunk + 8) == Some(limit - chunk)
        {
            chain(reader, chunk, top, found);
        }
        (chunk, top) = (top, limit);
    });
}

/// The newest chunk up to the top, and the ones before it as far as they were filled.
fn chain(reader: &Reader<'_>, chunk: u64, top: u64, found: &mut Vec<(u64, u64)>) {
    let (mut chunk, mut top) = (chunk, top);
    while plausible(chunk) && found.len() < MOST_CHUNKS && !found.contains(&(chunk + HEAD, top)) {
        found.push((chunk + HEAD, top));
        let Some(before) = reader.word(chunk).filter(|before| plausible(*before)) else { return };
        let filled = reader.word(before + 16).filter(|words| *words < LARGEST / 8);
        (chunk, top) = (before, before + HEAD + filled.unwrap_or(0) * 8);
    }
}
