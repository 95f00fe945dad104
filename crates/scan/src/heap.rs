//! Heaps of glibc's malloc: chunk after chunk up to the top, from outside.
//!
//! Each chunk says its size and whether the one before it is in use; a free one repeats its size at its end. A walk
//! that meets a size that cannot be, or a repeated size that differs, was torn by the living process: it goes back
//! a window and reads again. It is whole only when it ends at the top. Not here: thread caches (`cache.rs`), which
//! look like chunks in use.

use crate::index::{FREE, HeapSlots, Index, RAW};
use crate::reader::{Reader, Window, word};
use crate::types::Types;

/// Smallest chunk.
const LEAST: u64 = 32;
/// Bytes read at once: as many as the processor's own caches still have when their chunks are looked at.
const WINDOW: usize = 128 << 10;
/// Bytes from one place to go back to, to the next.
const MARKED: u64 = 1 << 20;
/// Times one place is read again before it is given up.
const TRIES: u32 = 16;
/// Bytes a lost walk looks ahead for the next chunk.
const RESYNC: u64 = 1 << 20;
/// Chunks that must follow each other for a lost walk to go on.
const CHAIN: usize = 24;
/// Bytes of a chunk that tell its type.
const PEEK: usize = 96;

/// A heap to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heap {
    pub(crate) start: u64,
    /// Where it ended when the mappings were read.
    pub(crate) end: u64,
    /// Where it ends by its own word: further, if it grew since.
    pub(crate) reach: u64,
    /// First chunk.
    pub(crate) first: u64,
    /// Address of the arena, 0 for the main one.
    pub(crate) arena: u64,
    /// The arena's top chunk where it is known.
    pub(crate) top: Option<u64>,
}

/// What a walk found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Chunks in use.
    pub(crate) live: u64,
    /// Free chunks.
    pub(crate) free: u64,
    /// The top chunk.
    pub(crate) top: u64,
    pub(crate) top_at: u64,
    /// Bytes that could not be told.
    pub(crate) lost: u64,
    pub(crate) retries: u64,
}

/// Chunks whose size is that of a thread's cache.
pub(crate) type Candidates = Vec<(u64, u64)>;
const MOST_CANDIDATES: usize = 1 << 16;

/// Walks one heap.
pub(crate) struct Walker<'a, 'b> {
    pub(crate) reader: &'a Reader<'a>,
    pub(crate) types: &'b mut Types<'a>,
    pub(crate) index: &'b Index,
    pub(crate) candidates: &'b mut Candidates,
}

#[derive(Clone, Copy)]
struct Pending {
    at: u64,
    size: u64,
    peek: [u8; PEEK],
}

#[derive(Clone, Copy)]
struct Checkpoint {
    at: u64,
    slots: usize,
    walk: Walk,
    candidates: usize,
}

enum Step {
    Chunk,
    End,
    Broken,
}

impl Walker<'_, '_> {
    /// Walks `heap`; the slots are its chunks.
    pub(crate) fn walk(&mut self, mut heap: Heap) -> (Walk, HeapSlots) {
        let mut out = Out { slots: HeapSlots::new(heap.end - heap.start), walk: Walk::default() };
        let mut cursor = Cursor { at: heap.first, pending: None, window: Window::new(WINDOW) };
        let mut mark = self.mark(heap.first, &out);
        let (mut tries, mut window_end) = (0, heap.first + MARKED);
        loop {
            match self.step(heap, &mut cursor, &mut out) {
                Step::Chunk => {}
                Step::End => break,
                Step::Broken if tries < TRIES => {
                    tries += 1;
                    self.look_how_far(&mut heap);
                    self.back(mark, heap, &mut out);
                    cursor.restart(mark.at);
                }
                Step::Broken => {
                    let from = cursor.pending.map_or(cursor.at, |pending| pending.at);
                    let next = self.resync(heap, cursor.at);
                    out.walk.lost += next.unwrap_or(heap.end) - from;
                    let Some(next) = next else { break };
                    out.slots.push(from - heap.start, FREE);
                    cursor.restart(next);
                    (mark, tries) = (self.mark(next, &out), 0);
                }
            }
            if cursor.at >= window_end && cursor.pending.is_none_or(|pending| pending.size < 1 << 20) {
                // A place to go back to: before the chunk that still waits for its successor.
                mark = self.mark(cursor.pending.map_or(cursor.at, |pending| pending.at), &out);
                (tries, window_end) = (0, cursor.at + MARKED);
            }
        }
        (out.walk, out.slots)
    }

    /// The main heap has no word of its own for where it ends: the kernel knows. One that grew has a chunk across its old end.
    fn look_how_far(&self, heap: &mut Heap) {
        if heap.arena == 0 {
            let now = self.reader.memory().end_now(heap.end.saturating_sub(1));
            heap.reach = now.unwrap_or(heap.end).max(heap.reach);
        }
    }

    fn mark(&self, at: u64, out: &Out) -> Checkpoint {
        Checkpoint { at, slots: out.slots.tags.len(), walk: out.walk, candidates: self.candidates.len() }
    }

    fn back(&mut self, mark: Checkpoint, heap: Heap, out: &mut Out) {
        out.slots.truncate(mark.at - heap.start, mark.slots);
        self.candidates.truncate(mark.candidates);
        out.walk = Walk { retries: out.walk.retries + 1, ..mark.walk };
    }

    fn step(&mut self, heap: Heap, cursor: &mut Cursor, out: &mut Out) -> Step {
        let Cursor { at, pending, window } = cursor;
        let at = *at;
        let left = heap.end.saturating_sub(at);
        if left < 16 {
            self.settle(heap, pending, State::Used, out);
            return if left == 0 { Step::End } else { Step::Broken };
        }
        let wanted = PEEK.min(left as usize);
        // The page after a chunk's head may never have been touched.
        let need = if window.at(self.reader, at, wanted, heap.end).is_some() { wanted } else { 16 };
        let Some(bytes) = window.at(self.reader, at, need, heap.end) else { return Step::Broken };
        let (before, head) = (word(bytes, 0), word(bytes, 8));
        let (whole, before_used) = (head & !7, head & 1 == 1);
        // A chunk at the end of a heap that grew meanwhile is taken as far as the heap was known.
        let size = if at.saturating_add(whole) <= heap.reach { whole.min(left) } else { whole };
        let agrees = before_used || pending.is_none_or(|pending| pending.size == before);
        let state = if before_used { State::Used } else { State::Free };
        if size <= 16 && left <= 64 && agrees {
            // The fence at the end of a heap that was followed by another one.
            self.settle(heap, pending, state, out);
            return Step::End;
        }
        if !agrees || size < LEAST || !size.is_multiple_of(16) || head & 2 != 0 || !ends_well(heap, at, size)
        {
            return Step::Broken;
        }
        let mut peek = [0; PEEK];
        peek[..need].copy_from_slice(&bytes[..need]);
        self.settle(heap, pending, state, out);
        let last = at + whole >= heap.reach || heap.top == Some(at);
        if last {
            out.slots.push(at - heap.start, FREE);
            out.walk.top = heap.end.min(at + size) - at;
            out.walk.top_at = at;
            return Step::End;
        }
        (cursor.at, cursor.pending) = (at + size, Some(Pending { at, size, peek }));
        Step::Chunk
    }

    /// The chunk that waited: now it is known whether it is in use.
    fn settle(&mut self, heap: Heap, pending: &mut Option<Pending>, state: State, out: &mut Out) {
        let Some(chunk) = pending.take() else { return };
        let tag = if state == State::Used {
            out.walk.live += chunk.size;
            let user = chunk.size - 8;
            let block = &chunk.peek[16..PEEK.min(chunk.size as usize + 8)];
            let may_be_type = |address: u64| match address.checked_sub(heap.first) {
                Some(_) if address < chunk.at => out.slots.may_be_type(address - heap.start),
                _ => self.index.may_be_type(address),
            };
            let found = self.types.classify(block, user, &may_be_type);
            if found.is_none()
                && crate::cache::SIZES.contains(&chunk.size)
                && self.candidates.len() < MOST_CANDIDATES
            {
                self.candidates.push((chunk.at, chunk.size));
            }
            found.map_or(RAW, |found| {
                self.types.leads(found, block, user);
                self.types.met(found, block, chunk.at + 16)
            })
        } else {
            out.walk.free += chunk.size;
            FREE
        };
        out.slots.push(chunk.at - heap.start, tag);
    }

    /// The next place after a break from which many chunks follow each other: mostly near, so little is read first.
    fn resync(&self, heap: Heap, from: u64) -> Option<u64> {
        let start = (from & !15) + 16;
        [RESYNC / 32, RESYNC].into_iter().find_map(|most| {
            let mut bytes = vec![0; most.min(heap.end.saturating_sub(start)) as usize];
            let got = self.reader.fill(start, &mut bytes);
            let bytes = &bytes[..got];
            (0..got.saturating_sub(16)).step_by(16).find(|at| chain(bytes, *at)).map(|at| start + at as u64)
        })
    }
}

/// What the next chunk says about the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Used,
    Free,
}

/// What a walk makes.
struct Out {
    slots: HeapSlots,
    walk: Walk,
}

/// Where a walk is: the next chunk, and the one that waits to hear from it whether it is in use.
struct Cursor {
    at: u64,
    pending: Option<Pending>,
    window: Window,
}

impl Cursor {
    fn restart(&mut self, at: u64) {
        (self.at, self.pending) = (at, None);
        self.window.clear();
    }
}

/// A chunk may end inside the heap, or be the top of a heap that grew since its size was read.
fn ends_well(heap: Heap, at: u64, size: u64) -> bool {
    let Some(end) = at.checked_add(size) else { return false };
    end <= heap.end || (end.is_multiple_of(4096) && size < 1 << 40 && heap.top.is_none_or(|top| top == at))
}

/// Whether many chunks that agree with each other begin at `at`.
fn chain(bytes: &[u8], mut at: usize) -> bool {
    let mut before: Option<u64> = None;
    for _ in 0..CHAIN {
        if at + 16 > bytes.len() {
            return false;
        }
        let head = word(bytes, at + 8);
        let size = head & !7;
        let fits = size >= LEAST && size.is_multiple_of(16) && head & 2 == 0 && size < RESYNC;
        let agrees = head & 1 == 1 || before.is_none_or(|before| before == word(bytes, at));
        if !fits || !agrees {
            return false;
        }
        before = Some(size);
        at += size as usize;
    }
    true
}

/// Looks for the first chunk of a heap that does not begin where it should.
pub(crate) fn first_chunk(reader: &Reader<'_>, start: u64, end: u64) -> Option<u64> {
    let mut bytes = vec![0; RESYNC.min(end.saturating_sub(start)) as usize];
    let got = reader.fill(start, &mut bytes);
    let bytes = &bytes[..got];
    (0..got.min(4096)).step_by(16).find(|at| chain(bytes, *at)).map(|at| start + at as u64)
}
