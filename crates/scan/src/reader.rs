//! Reads of the target, counted, with a small cache for the places that are asked for again and again.

use crate::memory::Memory;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};

/// Addresses a user process can have on 64-bit Linux.
const USER_END: u64 = 1 << 47;
/// Names of classes that a program makes (of generics, of tables) get this long.
const LONGEST_TEXT: usize = 2048;
/// Below this nothing is ever mapped.
const USER_START: u64 = 0x1_0000;
const CACHED_PAGES: usize = 1024;
const PAGE: usize = 4096;
/// How far the kernel is asked for the next page that is there.
const LOOK_AHEAD: u64 = 2 << 20;
/// Bytes that could be read in the time that any read takes.
const A_READ: u64 = 2048;

/// Whether a word could be the address of something aligned.
#[inline]
pub(crate) fn plausible(address: u64) -> bool {
    (USER_START..USER_END).contains(&address) && address.is_multiple_of(8)
}

/// The little-endian word at `at`, 0 past the end.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
}

/// The same for 32 bits.
#[inline]
pub(crate) fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |half| u32::from_le_bytes(*half))
}

/// The target's memory behind a counter and a cache.
pub(crate) struct Reader<'a> {
    memory: &'a dyn Memory,
    reads: Cell<u64>,
    read_bytes: Cell<u64>,
    /// Page number and content, placed by the page number.
    pages: RefCell<Vec<(u64, Vec<u8>)>>,
    /// Where the text of a name was found last.
    texts: RefCell<FxHashMap<&'static str, u64>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(memory: &'a dyn Memory) -> Self {
        Self {
            memory,
            reads: Cell::new(0),
            read_bytes: Cell::new(0),
            pages: RefCell::default(),
            texts: RefCell::default(),
        }
    }

    pub(crate) fn memory(&self) -> &'a dyn Memory {
        self.memory
    }

    /// Where the text of a name was found last.
    pub(crate) fn text_of(&self, name: &str) -> Option<u64> {
        self.texts.borrow().get(name).copied()
    }

    pub(crate) fn remember_text(&self, name: &'static str, address: u64) {
        self.texts.borrow_mut().insert(name, address);
    }

    /// How many reads, and how many bytes.
    pub(crate) fn spent(&self) -> (u64, u64) {
        (self.reads.get(), self.read_bytes.get())
    }

    /// What the reads so far cost, in bytes: a read that gets nothing is not free.
    pub(crate) fn effort(&self) -> u64 {
        self.read_bytes.get().saturating_add(self.reads.get().saturating_mul(A_READ))
    }

    /// Fills `into` as far as it goes.
    pub(crate) fn fill(&self, address: u64, into: &mut [u8]) -> usize {
        let got = self.memory.read(address, into).min(into.len());
        self.reads.set(self.reads.get() + 1);
        self.read_bytes.set(self.read_bytes.get() + got as u64);
        got
    }

    /// Fills pieces of `length` bytes from many addresses at once; gives how many.
    pub(crate) fn fill_each(&self, addresses: &[u64], length: usize, into: &mut [u8]) -> usize {
        let got = self.memory.read_each(addresses, length, into).min(addresses.len());
        self.reads.set(self.reads.get() + 1);
        self.read_bytes.set(self.read_bytes.get() + (got * length) as u64);
        got
    }

    /// Fills `into` whole through the cache, or says no.
    pub(crate) fn cached(&self, address: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let Some(at) = address.checked_add(done as u64) else { return false };
            let offset = (at % PAGE as u64) as usize;
            let count = (PAGE - offset).min(into.len() - done);
            if !self.copy_page(at / PAGE as u64, offset, &mut into[done..done + count]) {
                return false;
            }
            done += count;
        }
        true
    }

    fn copy_page(&self, page: u64, offset: usize, into: &mut [u8]) -> bool {
        let mut pages = self.pages.borrow_mut();
        if pages.is_empty() {
            pages.resize(CACHED_PAGES, (u64::MAX, Vec::new()));
        }
        let entry = &mut pages[Self::place(page)];
        if entry.0 != page {
            entry.0 = page;
            entry.1.resize(PAGE, 0);
            let got = self.fill(page * PAGE as u64, &mut entry.1);
            entry.1.truncate(got);
        }
        entry.1.get(offset..offset + into.len()).is_some_and(|found| {
            into.copy_from_slice(found);
            true
        })
    }

    /// Takes the pages of some places into the cache, all with one read: whoever asks for them soon has them at hand.
    pub(crate) fn prepare(&self, places: impl Iterator<Item = u64>) {
        let mut pages = self.pages.borrow_mut();
        if pages.is_empty() {
            pages.resize(CACHED_PAGES, (u64::MAX, Vec::new()));
        }
        let mut missing: Vec<u64> = places.map(|place| place / PAGE as u64).collect();
        missing.dedup();
        missing.retain(|page| pages[Self::place(*page)].0 != *page);
        let addresses: Vec<u64> = missing.iter().map(|page| page * PAGE as u64).collect();
        let mut bytes = vec![0; missing.len() * PAGE];
        let got = self.fill_each(&addresses, PAGE, &mut bytes);
        for (page, bytes) in missing.into_iter().zip(bytes.as_chunks::<PAGE>().0).take(got) {
            let entry = &mut pages[Self::place(page)];
            entry.0 = page;
            entry.1.clear();
            entry.1.extend_from_slice(bytes);
        }
    }

    /// Where the next page begins that is there, behind one that is not; `end` where there is none before it.
    fn next_page(&self, at: u64, end: u64) -> u64 {
        let next = (at / PAGE as u64 + 1) * PAGE as u64;
        if next >= end {
            return next;
        }
        // Of memory that was asked for and never written a page may be there now and then.
        let near = end.min(next.saturating_add(LOOK_AHEAD));
        self.memory.present(next, near).first().map_or(near, |(start, _)| (*start).max(next))
    }

    /// Where a page is kept.
    fn place(page: u64) -> usize {
        (page as usize ^ (page >> 10) as usize) % CACHED_PAGES
    }

    /// Fills `into` from `address` on to the end of the page at most, through the cache; gives how much.
    fn rest_of_page(&self, address: u64, into: &mut [u8]) -> usize {
        let offset = (address % PAGE as u64) as usize;
        let count = (PAGE - offset).min(into.len());
        if self.copy_page(address / PAGE as u64, offset, &mut into[..count]) { count } else { 0 }
    }

    /// A word through the cache.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.cached(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    /// Forgets cached pages: what is read next is as it is now.
    pub(crate) fn refresh(&self) {
        self.pages.borrow_mut().iter_mut().for_each(|entry| entry.0 = u64::MAX);
    }

    /// Fills `into` whole through the cache, or from the file that is mapped there, or says no.
    fn cached_or_in_file(&self, address: u64, into: &mut [u8]) -> bool {
        self.cached(address, into) || {
            self.reads.set(self.reads.get() + 1);
            self.memory.in_file(address, into) == into.len()
        }
    }

    /// A NUL-terminated text that can be shown. The names of a library's types are read seldom: their pages
    /// are the first to go when memory gets short, and nobody may have touched them ever.
    pub(crate) fn text(&self, address: u64) -> Option<String> {
        let mut out = Vec::new();
        let mut at = address;
        while out.len() < LONGEST_TEXT {
            let mut part = [0; 32];
            let count = 32 - (at % 32) as usize;
            if !self.cached_or_in_file(at, &mut part[..count]) {
                return None;
            }
            let end = part[..count].iter().position(|byte| *byte == 0);
            out.extend_from_slice(&part[..end.unwrap_or(count)]);
            if end.is_some() {
                return String::from_utf8(out).ok().filter(|text| is_readable(text));
            }
            at += count as u64;
        }
        None
    }
}

/// Whether a text may be shown as a name: letters of any script, but nothing that moves a cursor, is not seen, or turns round
/// what follows.
pub(crate) fn is_readable(text: &str) -> bool {
    const UNSEEN: [std::ops::RangeInclusive<char>; 4] =
        ['\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{206f}', '\u{e000}'..='\u{feff}'];
    let seen = |c: char| !c.is_control() && !UNSEEN.iter().any(|range| range.contains(&c));
    !text.is_empty() && text.chars().all(seen)
}

/// Reads a long range piece by piece through one buffer: little at first, more while it goes straight on.
pub(crate) struct Window {
    buffer: Vec<u8>,
    start: u64,
    length: usize,
    ahead: usize,
    scattered: Scattered,
}

/// What is done at a place that does not follow from the last one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scattered {
    /// It is read: as it is now.
    Read,
    /// The page may be one that was read a moment ago.
    Cached,
}

/// What a window reads at a place it did not come from.
const LEAST_AHEAD: usize = 4 << 10;
/// A place that far behind the last one still follows from it: to read what lies between costs less than to read twice.
const NEAR: u64 = 16 << 10;

impl Window {
    pub(crate) fn new(size: usize) -> Self {
        let buffer = vec![0; size];
        Self { buffer, start: 0, length: 0, ahead: LEAST_AHEAD, scattered: Scattered::Read }
    }

    /// For blocks in any order: those that lead to each other often share their pages, though others are asked for between
    /// them. Not for what has to be read again because it changed.
    pub(crate) fn for_scattered(size: usize) -> Self {
        Self { scattered: Scattered::Cached, ..Self::new(size) }
    }

    /// Forgets what was read, and reads little again at first.
    pub(crate) fn clear(&mut self) {
        (self.start, self.length, self.ahead) = (0, 0, LEAST_AHEAD);
    }

    /// At least `need` bytes from `address` on, as many as are at hand; reads on, but never past `end`.
    #[inline]
    pub(crate) fn at(&mut self, reader: &Reader<'_>, address: u64, need: usize, end: u64) -> Option<&[u8]> {
        self.skip_to(reader, address, (need, need), end).map(|skip| &self.buffer[skip..self.length])
    }

    /// The place in the buffer of at least `need` bytes from `address` on. So many as `sure` will be asked for, if they are there.
    #[inline]
    fn skip_to(
        &mut self,
        reader: &Reader<'_>,
        address: u64,
        (need, sure): (usize, usize),
        end: u64,
    ) -> Option<usize> {
        let inside = address >= self.start
            && address.saturating_add(need as u64) <= self.start.saturating_add(self.length as u64);
        if !inside {
            self.refill(reader, address, (need, sure), end);
        }
        let skip = (address - self.start) as usize;
        (self.length.saturating_sub(skip) >= need).then_some(skip)
    }

    #[cold]
    fn refill(&mut self, reader: &Reader<'_>, address: u64, (need, sure): (usize, usize), end: u64) {
        let last = self.start.saturating_add(self.length as u64);
        let on = address >= self.start && address <= last.saturating_add(NEAR);
        if self.scattered == Scattered::Cached && !on && need <= PAGE - (address % PAGE as u64) as usize {
            (self.start, self.ahead) = (address, LEAST_AHEAD);
            let want = self.buffer.len().min(end.saturating_sub(address) as usize);
            self.length = reader.rest_of_page(address, &mut self.buffer[..want]);
            if self.length >= need {
                return;
            }
        }
        self.ahead = if on { self.ahead * 2 } else { LEAST_AHEAD }.clamp(need, self.buffer.len().max(need));
        let want = self.ahead.max(sure).min(self.buffer.len()).min(end.saturating_sub(address) as usize);
        self.start = address;
        self.length = reader.fill(address, &mut self.buffer[..want]);
    }
}

impl Window {
    /// Calls `each` with every word of `[at, end)` that is resident, and its address. Pages that are not are passed.
    #[inline]
    pub(crate) fn words(&mut self, reader: &Reader<'_>, range: (u64, u64), each: impl FnMut(u64, u64)) {
        self.words_before(reader, range, u64::MAX, each);
    }

    /// The same where nothing behind `bound` will be asked for soon: it is not read ahead.
    #[inline]
    pub(crate) fn words_before(
        &mut self,
        reader: &Reader<'_>,
        (mut at, end): (u64, u64),
        bound: u64,
        mut each: impl FnMut(u64, u64),
    ) {
        let bound = bound.max(end);
        while at.saturating_add(8) <= end {
            let need = ((end - at).min(LEAST_AHEAD as u64) & !7) as usize;
            let whole = self.skip_to(reader, at, (need, (end - at) as usize), bound);
            let Some(skip) = whole.or_else(|| self.skip_to(reader, at, (8, 8), bound)) else {
                at = reader.next_page(at, end);
                continue;
            };
            let bytes = &self.buffer[skip..self.length];
            let (words, _) = bytes[..bytes.len().min(need)].as_chunks::<8>();
            for bytes in words {
                each(at, u64::from_le_bytes(*bytes));
                at += 8;
            }
        }
    }
}

/// The resident runs of some ranges, to ask how much of a piece is resident.
#[derive(Default)]
pub(crate) struct Resident {
    /// Start, end, resident bytes before it.
    runs: Vec<(u64, u64, u64)>,
}

impl Resident {
    /// Adds runs that come after all others.
    pub(crate) fn add(&mut self, runs: &[(u64, u64)]) {
        for (start, end) in runs.iter().filter(|(start, end)| start < end) {
            match self.runs.last_mut() {
                Some(last) if last.1 == *start => last.1 = *end,
                Some(last) if last.1 > *start => {}
                _ => {
                    let before = self.total();
                    self.runs.push((*start, *end, before));
                }
            }
        }
    }

    /// All resident bytes.
    pub(crate) fn total(&self) -> u64 {
        self.runs.last().map_or(0, |(start, end, before)| before + (end - start))
    }

    fn below(&self, address: u64) -> u64 {
        let after = self.runs.partition_point(|(start, ..)| *start < address);
        let Some((start, end, before)) = after.checked_sub(1).and_then(|at| self.runs.get(at)) else {
            return 0;
        };
        before + address.min(*end).saturating_sub(*start)
    }

    /// Resident bytes in `[start, end)`.
    pub(crate) fn within(&self, start: u64, end: u64) -> u64 {
        self.below(end).saturating_sub(self.below(start))
    }

    /// All runs.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().map(|(start, end, _)| (*start, *end))
    }

    /// Memory of this list.
    pub(crate) fn own_bytes(&self) -> u64 {
        (self.runs.capacity() * 24) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::Dump;

    #[test]
    fn resident_bytes_are_counted_across_holes() {
        let mut resident = Resident::default();
        resident.add(&[(0x1000, 0x3000), (0x5000, 0x6000)]);
        resident.add(&[(0x6000, 0x7000)]);
        assert_eq!(resident.total(), 0x4000);
        assert_eq!(resident.within(0x2000, 0x5800), 0x1800);
        assert_eq!(resident.within(0x3000, 0x5000), 0);
    }

    #[test]
    fn a_cached_read_over_a_hole_says_no_and_a_text_must_end() {
        let mut dump = Dump::new(Vec::new());
        let mut page = vec![b'a'; 4096];
        page[8..11].copy_from_slice(b"ok\0");
        dump.push(0x10000, &page);
        let reader = Reader::new(&dump);
        assert_eq!(reader.text(0x10008).as_deref(), Some("ok"));
        assert_eq!(reader.text(0x10100), None, "no end");
        assert_eq!(reader.word(0x10ffc), None);
        assert_eq!(reader.word(0x10ff8), Some(0x6161_6161_6161_6161));
    }

    /// A process without resident pages, of which a file is mapped at 0x10000.
    struct Mapped(&'static [u8]);

    impl Memory for Mapped {
        fn mappings(&self) -> &[crate::Mapping] {
            &[]
        }

        fn present(&self, _: u64, _: u64) -> Vec<(u64, u64)> {
            Vec::new()
        }

        fn read(&self, _: u64, _: &mut [u8]) -> usize {
            0
        }

        fn in_file(&self, address: u64, into: &mut [u8]) -> usize {
            let bytes = address.checked_sub(0x10000).and_then(|at| self.0.get(at as usize..));
            let length = bytes.map_or(0, |bytes| bytes.len().min(into.len()));
            into[..length].copy_from_slice(&bytes.unwrap_or_default()[..length]);
            length
        }
    }

    #[test]
    fn a_text_that_is_not_resident_is_read_of_its_file_and_nothing_else_is() {
        let file = Mapped(b"....dict\0....a text that is longer than thirty-two bytes\0...............");
        let reader = Reader::new(&file);
        assert_eq!(reader.text(0x10004).as_deref(), Some("dict"));
        let long = reader.text(0x1000d);
        assert_eq!(long.as_deref(), Some("a text that is longer than thirty-two bytes"));
        assert_eq!((reader.text(0x20000), reader.word(0x10000)), (None, None));
    }

    #[test]
    fn pages_that_are_prepared_cost_one_read_and_a_hole_among_them_ends_it() {
        let mut dump = Dump::new(Vec::new());
        for page in [0x10, 0x20, 0x21, 0x40_u64] {
            dump.push(page << 12, &page.to_le_bytes().repeat(512));
        }
        let reader = Reader::new(&dump);
        reader.prepare([0x10_008, 0x20_010, 0x20_800, 0x21_000].into_iter());
        assert_eq!(reader.spent(), (1, 3 << 12));
        let words = [0x10_ff8, 0x20_000, 0x21_100].map(|at| reader.word(at));
        assert_eq!((words, reader.spent().0), ([Some(0x10), Some(0x20), Some(0x21)], 1));
        reader.prepare([0x30_000, 0x40_000].into_iter());
        assert_eq!((reader.word(0x40_000), reader.word(0x30_000), reader.spent().0), (Some(0x40), None, 4));
    }
}
