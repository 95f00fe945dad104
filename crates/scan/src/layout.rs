//! Which allocator each piece of anonymous memory belongs to, told by the heads the allocators themselves write.
//!
//! Adjacent mappings melt into one in `/proc/PID/maps`, so a mapping is walked piece by piece: a heap of a thread
//! arena, a chunk with a mapping of its own, a pool of Python's, or pages nobody here knows.

use crate::heap::{Heap, first_chunk};
use crate::index::CHUNK_HEAD;
use crate::memory::{Facts, Mapping};
use crate::pool::{Place, PoolHead};
use crate::reader::{Reader, Resident, half, plausible, word};

/// Thread heaps begin at multiples of this.
const HEAP_ALIGN: u64 = 64 << 20;
const PAGE: u64 = 4096;
/// Least size malloc gives a mapping of its own by default.
const MMAP_THRESHOLD: u64 = 128 << 10;
/// Sizes of glibc's arena, the smallest first: 2.43, without fast bins, 2.26, and 2.27 to 2.42. Behind a smaller one that is looked for
/// in a larger are pointers and zeroes, no chunk; but where a larger one would end in a smaller may be a later chunk.
const ARENA_SIZES: [u64; 5] = [0x840, 0x848, 0x888, 0x890, 0x898];
/// Where an arena keeps its top: after ten fast bins, or without them.
const TOP_OFFSETS: [u64; 3] = [96, 16, 8];

/// A piece of memory an allocator uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    Pool(Place),
    Heap(Heap),
    /// A chunk with a mapping of its own: start and end.
    Single(u64, u64),
    /// Shared memory: start and end.
    Shared(u64, u64),
}

/// Everything found.
#[derive(Default)]
pub(crate) struct Layout {
    pub(crate) regions: Vec<Region>,
    /// Resident memory of all anonymous mappings that allocators may use, and of shared memory.
    pub(crate) resident: Resident,
    /// Thread stacks: start and end.
    pub(crate) stacks: Vec<(u64, u64)>,
    /// Pieces in which Python (3.11 on) keeps frames of running functions, ascending.
    pub(crate) frames: Vec<(u64, u64)>,
    /// A `[heap]` that is none of glibc's.
    pub(crate) strange_heap: bool,
}

impl Layout {
    /// Resident anonymous memory of no region, up to a bound: the data of a library may go on there.
    pub(crate) fn outside(&self) -> Vec<(u64, u64)> {
        const MOST: u64 = 64 << 20;
        let mut known = self.regions.iter().map(|region| match region {
            Region::Pool(place) => (place.address, place.address + place.size),
            Region::Heap(heap) => (heap.start, heap.end),
            Region::Single(start, end) | Region::Shared(start, end) => (*start, *end),
        });
        let mut next = known.next();
        let (mut ranges, mut sum) = (Vec::new(), 0);
        for (start, end) in self.resident.runs() {
            let mut at = start;
            while at < end && sum < MOST {
                while next.is_some_and(|known| known.1 <= at) {
                    next = known.next();
                }
                let stop = next.map_or(end, |known| known.0.clamp(at, end));
                if stop > at {
                    ranges.push((at, stop));
                    sum += stop - at;
                }
                at = next.map_or(end, |known| known.1.max(stop));
            }
        }
        ranges
    }
}

/// Whether allocators could live in a mapping.
pub(crate) fn is_anonymous(mapping: &Mapping) -> bool {
    let private = mapping.readable && mapping.writable && !mapping.shared && mapping.inode == 0;
    private && (mapping.name.is_empty() || mapping.name == "[heap]" || mapping.name.starts_with("[anon"))
}

/// Mappings that follow each other without a gap. One block may lie in several: whoever gives the kernel advice about a part
/// of it (numpy asks for huge pages behind the head of a large array) cuts its mapping in two.
#[derive(Default)]
struct Stretch {
    /// Where its mappings begin, and where the last one ends.
    starts: Vec<u64>,
    end: u64,
    /// Its resident runs.
    runs: Vec<(u64, u64)>,
}

impl Stretch {
    fn add(&mut self, mapping: &Mapping, runs: Vec<(u64, u64)>) {
        self.starts.push(mapping.start);
        self.end = mapping.end;
        self.runs.extend(runs);
    }

    fn end(&self) -> Option<u64> {
        (!self.starts.is_empty()).then_some(self.end)
    }
}

/// Files that are memory and no files.
const IN_MEMORY: [&str; 4] = ["/dev/shm/", "/dev/zero", "/memfd:", "/SYSV"];

/// Whether a mapping has memory behind it that is named like a file, or none with a name.
pub(crate) fn is_in_memory(mapping: &Mapping) -> bool {
    IN_MEMORY.iter().any(|start| mapping.name.starts_with(start))
}

/// Whether a mapping is memory that other processes may have as well.
pub(crate) fn is_shared_memory(mapping: &Mapping) -> bool {
    mapping.shared && (is_in_memory(mapping) || mapping.inode == 0)
}

/// What Python may have put into memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    /// Bytes of a pool, where its own allocator has some.
    pub(crate) pool: Option<u64>,
    /// Whether it keeps frames in pieces of their own.
    pub(crate) frames: bool,
}

/// Goes over all mappings.
pub(crate) fn layout(reader: &Reader<'_>, facts: &Facts, expected: Expected) -> Layout {
    let mut found = Layout::default();
    let mappings = reader.memory().mappings();
    let mut finder =
        Finder { reader, expected, heads: Heads::default(), behind_nothing: 0, found: &mut found };
    let mut stretch = Stretch::default();
    for (at, mapping) in mappings.iter().enumerate() {
        let guard = at.checked_sub(1).map(|before| &mappings[before]);
        let stack = is_stack(reader, mapping, guard, facts);
        let pieces = !stack && is_anonymous(mapping) && mapping.name != "[heap]";
        if !pieces || stretch.end() != Some(mapping.start) {
            finder.pieces(&std::mem::take(&mut stretch));
        }
        if stack {
            finder.found.stacks.push((mapping.start, mapping.end));
        } else if pieces {
            stretch.add(mapping, finder.present(mapping));
        } else if is_anonymous(mapping) {
            finder.present(mapping);
            finder.main_heap(mapping);
        } else if is_shared_memory(mapping) && mapping.readable && mapping.writable {
            finder.present(mapping);
            finder.found.regions.push(Region::Shared(mapping.start, mapping.end));
        }
    }
    finder.pieces(&stretch);
    found
}

struct Finder<'a, 'b> {
    reader: &'a Reader<'a>,
    expected: Expected,
    heads: Heads,
    /// The page behind one on which nothing was found.
    behind_nothing: u64,
    found: &'b mut Layout,
}

/// Bytes that tell what begins at a place.
const HEAD: usize = 48;
/// Where a pool's head has the number of its arena.
const ARENA_NUMBER: usize = 32;
/// Heads that are read at once.
const TOGETHER: usize = 64;

/// Pools behind one that are looked at to see whether they are of its arena, which has 64: the furthest tells of all before it.
const FURTHER: [u64; 4] = [6, 14, 30, 62];

/// Heads of pages one behind the other, on which nothing was found.
#[derive(Default)]
struct Heads {
    start: u64,
    bytes: Vec<u8>,
    count: usize,
}

impl Heads {
    /// The head at `at`, if it is one of these.
    fn get(&self, at: u64) -> Option<[u8; HEAD]> {
        let offset = at.checked_sub(self.start).filter(|offset| offset.is_multiple_of(PAGE))?;
        let number = usize::try_from(offset / PAGE).ok().filter(|number| *number < self.count)?;
        self.bytes.get(number * HEAD..)?.first_chunk().copied()
    }

    fn read(&mut self, reader: &Reader<'_>, at: u64, end: u64) {
        let places: Vec<u64> = (at..end).step_by(PAGE as usize).take(TOGETHER).collect();
        self.bytes.resize(TOGETHER * HEAD, 0);
        self.start = at;
        self.count = reader.fill_each(&places, HEAD, &mut self.bytes);
    }
}

impl Finder<'_, '_> {
    fn main_heap(&mut self, mapping: &Mapping) {
        let continued = self.found.regions.iter_mut().rev().find_map(|region| match region {
            Region::Heap(heap) if heap.arena == 0 && heap.end == mapping.start => Some(heap),
            Region::Heap(_) | Region::Pool(_) | Region::Single(..) | Region::Shared(..) => None,
        });
        if let Some(heap) = continued {
            (heap.end, heap.reach) = (mapping.end, mapping.end);
            return;
        }
        let head = self.reader.word(mapping.start + 8).unwrap_or(0);
        let size = head & !7;
        let fits =
            head & 7 == 1 && size >= 32 && size.is_multiple_of(16) && size <= mapping.end - mapping.start;
        let first =
            if fits { Some(mapping.start) } else { first_chunk(self.reader, mapping.start, mapping.end) };
        match first {
            Some(first) => self.found.regions.push(Region::Heap(Heap {
                start: mapping.start,
                end: mapping.end,
                reach: mapping.end,
                first,
                arena: 0,
                top: None,
            })),
            None => self.found.strange_heap = true,
        }
    }

    /// The resident runs of a mapping, counted as such.
    fn present(&mut self, mapping: &Mapping) -> Vec<(u64, u64)> {
        let runs = self.reader.memory().present(mapping.start, mapping.end);
        self.found.resident.add(&runs);
        runs
    }

    fn pieces(&mut self, stretch: &Stretch) {
        // After a piece that is understood the next one must begin, as at the beginning of a mapping; elsewhere a look-alike
        // needs more proof.
        let (mut at, mut sure) = (0, false);
        for (start, end) in &stretch.runs {
            if at < *start {
                (at, sure) = (*start, false);
            }
            while at < *end {
                let sure_here = sure || stretch.starts.binary_search(&at).is_ok();
                match self.piece(at, (*end, stretch.end), sure_here) {
                    Some(next) => (at, sure) = (next, true),
                    None => {
                        (at, sure) = (at + PAGE, false);
                        self.behind_nothing = at;
                    }
                }
            }
        }
    }

    /// What begins at `at`, where memory is resident up to `here` and mapped up to `end`; gives where it ends.
    fn piece(&mut self, at: u64, (here, end): (u64, u64), sure: bool) -> Option<u64> {
        let head = self.head(at, end)?;
        if let Some(heap) = self.thread_heap(&head, at, end) {
            self.found.regions.push(Region::Heap(heap));
            return Some(heap.end);
        }
        if let Some(next) = own_mapping(&head, at, end)
            && (next - at >= MMAP_THRESHOLD && self.begins_something(next, end) || sure)
        {
            self.found.regions.push(Region::Single(at, next));
            return Some(next);
        }
        let pool = self.expected.pool.filter(|size| at.is_multiple_of(*size) && at + size <= end);
        match pool.filter(|size| PoolHead::read(&head, at, *size).is_some()) {
            Some(size) => {
                let next = self.same_arena(&head, at, here, size) + size;
                let places = (at..next).step_by(size as usize);
                self.found.regions.extend(places.map(|address| Region::Pool(Place { address, size })));
                Some(next)
            }
            None => {
                let stop = self.frames(&head, at, end)?;
                self.found.frames.push((at, stop));
                Some(stop)
            }
        }
    }

    /// The last pool that is known to be of the same arena as the one at `at`, with all between. An arena hands out its pools one
    /// behind the other, and each has its number.
    fn same_arena(&self, head: &[u8; HEAD], at: u64, here: u64, size: u64) -> u64 {
        let places = FURTHER.map(|number| at + number * size);
        let there = places.iter().filter(|place| **place + size <= here).count();
        let mut heads = [0; FURTHER.len() * HEAD];
        let got = if there > 0 { self.reader.fill_each(&places[..there], HEAD, &mut heads) } else { 0 };
        let arena = |head: &[u8]| half(head, ARENA_NUMBER);
        let same = |(place, other): &(&u64, &[u8; HEAD])| {
            arena(*other) == arena(head) && PoolHead::read(*other, **place, size).is_some()
        };
        let furthest = places.iter().zip(heads.as_chunks::<HEAD>().0).take(got).rfind(same);
        furthest.map_or(at, |(place, _)| *place)
    }

    /// The first bytes at `at`. Behind a page with nothing there is mostly another such page: so the next ones are read as well.
    fn head(&mut self, at: u64, end: u64) -> Option<[u8; HEAD]> {
        if self.behind_nothing == at {
            if self.heads.get(at).is_none() {
                self.heads.read(self.reader, at, end);
            }
            return self.heads.get(at);
        }
        let mut head = [0; HEAD];
        (self.reader.fill(at, &mut head) == head.len()).then_some(head)
    }

    /// Whether a mapping ends at `at` or something known begins there.
    fn begins_something(&self, at: u64, end: u64) -> bool {
        let mut head = [0; 48];
        if at >= end || self.reader.fill(at, &mut head) < head.len() {
            return true;
        }
        self.expected.pool.is_some_and(|size| PoolHead::read(&head, at, size).is_some())
            || self.frames(&head, at, end).is_some()
            || own_mapping(&head, at, end).is_some()
            || self.thread_heap(&head, at, end).is_some()
    }

    /// Where a piece with frames ends, if one begins at `at`.
    fn frames(&self, head: &[u8], at: u64, end: u64) -> Option<u64> {
        if self.expected.frames { frames(head, at, end) } else { None }
    }

    fn thread_heap(&self, head: &[u8], at: u64, end: u64) -> Option<Heap> {
        let (arena, before, size) = (word(head, 0), word(head, 8), word(head, 16));
        let aligned = at.is_multiple_of(HEAP_ALIGN) && plausible(arena) && size.is_multiple_of(PAGE);
        if !aligned || !(PAGE..=HEAP_ALIGN).contains(&size) {
            return None;
        }
        // One that grows is longer by now than its mapping was.
        let reach = at.saturating_add(size);
        let stop = end.min(reach);
        let top = TOP_OFFSETS.iter().filter_map(|offset| self.reader.word(arena + offset)).find(|top| {
            // The top may be in a later heap of the same arena, or in one that came since and can't be read.
            plausible(*top)
                && top.is_multiple_of(16)
                && self.reader.word(top + 8).is_none_or(|head| head & 2 == 0 && head & 1 == 1)
        })?;
        let first = if (at + 32..at + 64).contains(&arena) {
            let after = ARENA_SIZES.map(|size| (arena + size).next_multiple_of(16));
            after.into_iter().find(|first| self.is_first(*first, stop))?
        } else {
            // Not the first heap of its arena: it is linked to the one before.
            if before == 0 || !before.is_multiple_of(HEAP_ALIGN) || arena & !(HEAP_ALIGN - 1) == at {
                return None;
            }
            // The head of a heap is as long as that of the first one, behind which the arena is.
            let first = at + arena % HEAP_ALIGN;
            Some(first).filter(|first| [at + 48, at + 32].contains(first) && self.is_first(*first, stop))?
        };
        let top = Some(top).filter(|top| (at..stop).contains(top));
        Some(Heap { start: at, end: stop, reach, first, arena, top })
    }

    /// Whether a chunk begins at `at` with nothing free before it, and another one behind it.
    fn is_first(&self, at: u64, end: u64) -> bool {
        let head = self.reader.word(at + 8).unwrap_or(0);
        let fits = |at: u64, head: u64| {
            let size = head & !7;
            head & 2 == 0 && size >= 32 && size.is_multiple_of(16) && size <= end.saturating_sub(at)
        };
        let next = at.saturating_add(head & !7);
        // Near the end there may be a fence instead, and what is not resident can't be asked.
        let behind = || {
            end.saturating_sub(next) <= 64 || self.reader.word(next + 8).is_none_or(|head| fits(next, head))
        };
        head & 1 == 1 && fits(at, head) && behind()
    }
}

/// Where a chunk with a mapping of its own ends, if one begins at `at`.
fn own_mapping(head: &[u8], at: u64, end: u64) -> Option<u64> {
    let (before, size) = (word(head, 0), word(head, 8));
    let length = size & !7;
    // Since 2.43 the size leaves its own head out.
    let whole =
        [length, length.saturating_add(CHUNK_HEAD)].into_iter().find(|length| length.is_multiple_of(PAGE))?;
    let fits = before == 0 && size & 7 == 2 && length >= CHUNK_HEAD;
    fits.then(|| at.checked_add(whole)).flatten().filter(|next| *next <= end)
}

/// Where a piece of memory ends in which Python (3.11 on) keeps the frames of a thread, if one begins at `at`: the piece before it,
/// its size, and how much of it was in use when the next was taken.
fn frames(head: &[u8], at: u64, end: u64) -> Option<u64> {
    const LEAST: u64 = 16 << 10;
    const MOST: u64 = 64 << 20;
    let (before, size, used) = (word(head, 0), word(head, 8), word(head, 16));
    let linked = before == 0 || plausible(before) && before.is_multiple_of(PAGE);
    let sized = (LEAST..=MOST).contains(&size) && size.is_power_of_two() && used < size / 8;
    (linked && sized).then(|| at.checked_add(size)).flatten().filter(|next| *next <= end)
}

/// A thread's stack: named so, pointed into by a stack pointer, or with glibc's thread record at its upper end.
fn is_stack(reader: &Reader<'_>, mapping: &Mapping, before: Option<&Mapping>, facts: &Facts) -> bool {
    if mapping.name.starts_with("[stack") {
        return true;
    }
    if !is_anonymous(mapping) || mapping.name == "[heap]" {
        return false;
    }
    let guarded =
        before.is_some_and(|guard| !guard.readable && !guard.writable && guard.end == mapping.start);
    let pointed = facts.stack_pointers.iter().any(|pointer| (mapping.start..mapping.end).contains(pointer));
    (pointed && guarded)
        || (guarded && mapping.end - mapping.start <= 1 << 30 && has_thread_record(reader, mapping))
}

/// glibc keeps a thread's record at the top of its stack; it points to itself twice.
fn has_thread_record(reader: &Reader<'_>, mapping: &Mapping) -> bool {
    const LOOK: u64 = 16 << 10;
    let from = mapping.end.saturating_sub(LOOK).max(mapping.start);
    let runs = reader.memory().present(from, mapping.end);
    runs.iter().any(|(start, end)| {
        let mut bytes = vec![0; (end - start).min(LOOK) as usize];
        let got = reader.fill(*start, &mut bytes);
        let bytes = &bytes[..got];
        (0..got.saturating_sub(24)).step_by(16).any(|at| {
            let own = start + at as u64;
            word(bytes, at) == own && word(bytes, at + 16) == own
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::Dump;

    /// A thread's heap of small chunks, as the C library with such heads makes it: its bytes, and where the first chunk is.
    fn thread_heap(at: u64, info: u64, (arena_size, top_at): (u64, u64)) -> (Vec<u8>, u64) {
        const SIZE: u64 = 132 << 10;
        let mut bytes = vec![0; SIZE as usize];
        let mut put = |offset: u64, word: u64| {
            bytes[offset as usize..offset as usize + 8].copy_from_slice(&word.to_le_bytes());
        };
        let first = (info + arena_size).next_multiple_of(16);
        let top = first + 60 * 32;
        [at + info, 0, SIZE, SIZE].into_iter().zip(0..).for_each(|(word, number)| put(number * 8, word));
        // Bins that lead to themselves, and what the arena has taken.
        (top_at + 16..arena_size - 56).step_by(8).for_each(|offset| put(info + offset, at + info + offset));
        [2, 1].iter().for_each(|back| put(info + arena_size - back * 8, SIZE));
        put(info + top_at, at + top);
        (0..60).for_each(|number| put(first + number * 32 + 8, 32 | 5));
        put(top + 8, (SIZE - top) | 1);
        (bytes, at + first)
    }

    #[test]
    fn a_heap_of_a_thread_begins_with_its_first_chunk_whichever_arena_is_before_it() {
        const AT: u64 = 0x7000_0000_0000;
        for info in [32, 48] {
            for arena in [(0x898, 96), (0x848, 16), (0x840, 8)] {
                let (bytes, first) = thread_heap(AT, info, arena);
                let end = AT + bytes.len() as u64;
                let mapping =
                    Mapping { start: AT, end, readable: true, writable: true, ..Mapping::default() };
                let mut dump = Dump::new(vec![mapping]);
                assert!(dump.push(AT, &bytes));
                let found = layout(&Reader::new(&dump), &Facts::default(), Expected::default());
                let [Region::Heap(heap)] = found.regions[..] else { panic!("{:?}", found.regions) };
                assert_eq!((heap.first - AT, heap.arena), (first - AT, AT + info), "{info} {arena:x?}");
            }
        }
    }

    #[test]
    fn pools_of_one_arena_are_found_by_the_furthest_of_them_and_nothing_behind_it_is_taken_for_one() {
        const START: u64 = 0x7000_0000_0000;
        const SIZE: u64 = 4096;
        let half = |bytes: &mut [u8], at: usize, value: u32| {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        };
        let pool = |arena: u32, at: u64| {
            let mut bytes = vec![0; SIZE as usize];
            [(0, 1), (32, arena), (36, 3), (40, 48 + 128), (44, SIZE as u32 - 64)]
                .into_iter()
                .for_each(|(at, value)| half(&mut bytes, at, value));
            bytes[8..16].copy_from_slice(&(at + 48 + 64).to_le_bytes());
            bytes
        };
        // An arena of 64, a part of another one, a page of something else, and a pool of a third.
        let numbers = [vec![7; 64], vec![9; 20], vec![0], vec![11]].concat();
        let mut dump = Dump::new(vec![Mapping {
            start: START,
            end: START + numbers.len() as u64 * SIZE,
            readable: true,
            writable: true,
            ..Mapping::default()
        }]);
        for (at, number) in (START..).step_by(SIZE as usize).zip(&numbers) {
            let bytes = if *number == 0 { vec![0x5a; SIZE as usize] } else { pool(*number, at) };
            assert!(dump.push(at, &bytes));
        }
        let reader = Reader::new(&dump);
        let found = layout(&reader, &Facts::default(), Expected { pool: Some(SIZE), frames: true });
        let wanted = (START..).step_by(SIZE as usize).zip(&numbers).filter(|(_, number)| **number != 0);
        let wanted: Vec<Region> =
            wanted.map(|(address, _)| Region::Pool(Place { address, size: SIZE })).collect();
        assert_eq!(found.regions, wanted);
        assert!(reader.spent().0 < 40, "{:?}", reader.spent());
    }

    #[test]
    fn blocks_with_mappings_of_their_own_are_found_between_the_frames_of_threads() {
        const START: u64 = 0x7000_0000_0000;
        const FRAMES: u64 = 16 << 10;
        const BLOCK: u64 = 200_704;
        let mut bytes = Vec::new();
        let mut piece = |words: [u64; 3], size: u64| {
            let at = bytes.len();
            bytes.resize(at + size as usize, 0x5a);
            words
                .iter()
                .zip(bytes[at..].as_chunks_mut::<8>().0)
                .for_each(|(word, to)| *to = word.to_le_bytes());
        };
        // Something unknown first: nothing but its head tells the first block.
        piece([1, 2, 3], PAGE);
        for before in [0, START] {
            piece([0, BLOCK | 2, 7], BLOCK);
            piece([before, FRAMES, 9], FRAMES);
        }
        piece([4, 5, 6], PAGE);
        let end = START + bytes.len() as u64;
        let mapping = Mapping {
            start: START,
            end,
            readable: true,
            writable: true,
            executable: false,
            shared: false,
            offset: 0,
            inode: 0,
            name: String::new(),
        };
        let mut dump = Dump::new(vec![mapping]);
        assert!(dump.push(START, &bytes));
        let expected = Expected { pool: Some(FRAMES), frames: true };
        let found = layout(&Reader::new(&dump), &Facts::default(), expected);
        let first = START + PAGE;
        let second = first + BLOCK + FRAMES;
        let wanted = [Region::Single(first, first + BLOCK), Region::Single(second, second + BLOCK)];
        assert_eq!(found.regions, wanted);
        let frames = [first + BLOCK, second + BLOCK];
        assert_eq!(found.frames, frames.map(|start| (start, start + FRAMES)));
        let without = layout(&Reader::new(&dump), &Facts::default(), Expected::default());
        assert!(without.regions.is_empty(), "without Python that is nothing: {:?}", without.regions);
    }
}
