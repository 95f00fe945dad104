//! The memory of a live process, page by page, without the process noticing.
//!
//! Only pages that are in memory are read: never one that was not touched, is swapped out, waits for userfaultfd or
//! belongs to a device. So the target's resident size, swap and page tables stay as they are; nothing is written to it.
//! Everything goes through three descriptors that are bound to one address space: after an exec they read nothing, and
//! a recorder, which may open them as the job's ancestor, can hand them to a process that may not.
//! Not here: what the bytes mean (crate `scan`).

mod pages;
mod region;
mod settings;
mod stop;
mod symbols;
#[cfg(test)]
mod tests;

pub use region::{Region, region};
pub use settings::{python_malloc_of, stack_pointers};
pub use stop::Held;
pub use symbols::{Symbol, symbols};

use crate::Root;
use crate::open_file::refusal_in;
use crate::parse::lines;
use lowtide_model::Reading;
use pages::{Pages, Run};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The most that is read of `maps`: the kernel allows 65,530 mappings, of about 120 bytes each.
const MAPS_CAP: u64 = 16 << 20;
/// Pages whose state is asked for at once when a single one is wanted.
const WINDOW_PAGES: u64 = 512;
/// Times the list is read again for addresses that are not on it: an address may be none.
const MOST_RENEWED: u32 = 32;
/// Pieces that the kernel reads at once.
const MOST_PIECES: usize = 1024;
/// How long an answer about a window is believed: the job frees and swaps while we read.
const FRESH: Duration = Duration::from_millis(10);

/// The open descriptors that a reader needs.
#[derive(Debug)]
pub struct Doors {
    maps: File,
    pagemap: File,
    mem: File,
}

impl Doors {
    /// Opens them: `Denied` without the right to trace the process.
    pub fn open(root: &Root, pid: u32) -> Reading<Self> {
        let process = root.process(pid);
        let open = |name: &str| File::open(process.join(name));
        let opened =
            open("mem").and_then(|mem| Ok(Self { mem, maps: open("maps")?, pagemap: open("pagemap")? }));
        match opened {
            Ok(doors) => Reading::Known(doors),
            Err(error) => refusal_in(&error, &process),
        }
    }

    /// The descriptors, to be handed to another process: maps, pagemap, mem.
    pub fn numbers(&self) -> [RawFd; 3] {
        [self.maps.as_raw_fd(), self.pagemap.as_raw_fd(), self.mem.as_raw_fd()]
    }

    /// The files themselves.
    pub fn files(&self) -> [&File; 3] {
        [&self.maps, &self.pagemap, &self.mem]
    }

    /// Takes descriptors that were handed to us.
    ///
    /// Fails when one of them is not open; they must not be in use elsewhere in this process.
    pub fn handed([maps, pagemap, mem]: [RawFd; 3]) -> io::Result<Self> {
        Ok(Self { maps: taken(maps)?, pagemap: taken(pagemap)?, mem: taken(mem)? })
    }
}

#[allow(unsafe_code, reason = "a descriptor number becomes an owned descriptor")]
fn taken(number: RawFd) -> io::Result<File> {
    if number < 3 || std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_err() {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    // SAFETY: the number is an open descriptor (just checked) that our starter left open for us and nobody else owns.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    nix::fcntl::fcntl(&owned, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    Ok(owned.into())
}

/// One window of pages: a bit each.
type Window = [u64; (WINDOW_PAGES / 64) as usize];

/// A live process's memory.
#[derive(Debug)]
pub struct LiveMemory {
    maps: RefCell<File>,
    mem: File,
    pages: Pages,
    page: u64,
    regions: Vec<Region>,
    /// The same as it was later, where somebody asked for that: only for what may be read. And how often that was.
    newer: RefCell<Vec<Region>>,
    renewed: Cell<u32>,
    windows: RefCell<HashMap<u64, (Instant, Window)>>,
    read_bytes: Cell<u64>,
    /// The process, while `process_vm_readv` works: half the price of reading `mem`, but it asks for our own rights.
    direct: Cell<Option<nix::unistd::Pid>>,
}

impl LiveMemory {
    /// Opens the memory of a process.
    pub fn open(root: &Root, pid: u32) -> Reading<Self> {
        Doors::open(root, pid).and_then(|doors| match Self::through(doors, crate::host::page_bytes()) {
            Ok(memory) => Reading::Known(memory),
            Err(error) => refusal_in(&error, &root.process(pid)),
        })
    }

    /// Reads through open descriptors.
    pub fn through(doors: Doors, page: u64) -> io::Result<Self> {
        let pages = Pages::new(doors.pagemap, page);
        let mut memory = Self {
            maps: RefCell::new(doors.maps),
            mem: doors.mem,
            pages,
            page,
            regions: Vec::new(),
            newer: RefCell::default(),
            renewed: Cell::new(0),
            windows: RefCell::default(),
            read_bytes: Cell::new(0),
            direct: Cell::new(None),
        };
        memory.look_again()?;
        Ok(memory)
    }

    /// Reads by the process's number where we have the right to; the descriptors stay for where we have not.
    #[must_use]
    pub fn directly(self, pid: u32) -> Self {
        self.direct.set(i32::try_from(pid).ok().map(nix::unistd::Pid::from_raw));
        self
    }

    /// Reads the list of mappings anew.
    pub fn look_again(&mut self) -> io::Result<()> {
        self.regions = lines(&self.listed()?).filter_map(region).collect();
        self.newer.borrow_mut().clear();
        self.windows.borrow_mut().clear();
        Ok(())
    }

    /// What the process has mapped since the list was read can be read as well from now on, if `address` is of that; the list
    /// stays as it is.
    pub fn renew(&self, address: u64) {
        let holds = |regions: &[Region]| {
            let at = regions.partition_point(|region| region.end <= address);
            regions.get(at).is_some_and(|region| region.start <= address)
        };
        if holds(&self.regions) || holds(&self.newer.borrow()) || self.renewed.get() >= MOST_RENEWED {
            return;
        }
        self.renewed.set(self.renewed.get() + 1);
        if let Ok(text) = self.listed() {
            *self.newer.borrow_mut() = lines(&text).filter_map(region).collect();
            self.windows.borrow_mut().clear();
        }
    }

    fn listed(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut maps = self.maps.borrow_mut();
        maps.rewind()?;
        (&mut *maps).take(MAPS_CAP).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Where the mapping that `address` lies in ends now, whatever it was when last looked at.
    pub fn end_now(&self, address: u64) -> Option<u64> {
        let text = self.listed().ok()?;
        let mut regions = lines(&text).filter_map(region);
        regions.find(|region| (region.start..region.end).contains(&address)).map(|region| region.end)
    }

    /// Whether the process still has this memory: not after it ended or became another program.
    pub fn is_there(&self) -> bool {
        self.listed().is_ok_and(|text| !text.is_empty())
    }

    /// All mappings, ascending, as they were when last looked at.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Bytes in a page.
    pub fn page_bytes(&self) -> u64 {
        self.page
    }

    /// Bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.get()
    }

    /// The runs of pages in `[start, end)` that are in memory now, ascending. What may not be read has none.
    pub fn present(&self, start: u64, end: u64) -> Vec<Run> {
        self.runs(start, end, Region::may_be_read)
    }

    /// Bytes in `[start, end)` that are in memory now, those of a device's mapping too: the kernel is asked, nothing is read.
    pub fn resident_bytes(&self, start: u64, end: u64) -> u64 {
        self.runs(start, end, Region::may_be_counted).iter().map(|(start, end)| end - start).sum()
    }

    fn runs(&self, start: u64, end: u64, wanted: fn(&Region) -> bool) -> Vec<Run> {
        let mut runs = Vec::new();
        let newer = self.newer.borrow();
        let regions = if newer.is_empty() { &self.regions } else { &*newer };
        let first = regions.partition_point(|region| region.end <= start);
        let inside = regions.iter().skip(first).take_while(|region| region.start < end);
        for region in inside.filter(|region| wanted(region)) {
            let from = start.max(region.start) / self.page * self.page;
            let to = end.min(region.end).div_ceil(self.page) * self.page;
            self.pages.present(from, to, &mut runs);
        }
        if let Some(run) = runs.first_mut() {
            run.0 = run.0.max(start);
        }
        if let Some(run) = runs.last_mut() {
            run.1 = run.1.min(end);
        }
        runs
    }

    /// Fills `into` from `address` as far as pages are there; gives how many bytes that was.
    pub fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let wanted = self.present_from(address, into.len() as u64) as usize;
        let mut filled = self.read_directly(address, &mut into[..wanted]);
        while let Some(rest) = into.get_mut(filled..wanted).filter(|rest| !rest.is_empty()) {
            match self.mem.read_at(rest, address + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.read_bytes.set(self.read_bytes.get() + filled as u64);
        filled
    }

    fn read_directly(&self, address: u64, into: &mut [u8]) -> usize {
        let Some(pid) = self.direct.get().filter(|_| !into.is_empty()) else { return 0 };
        let there = nix::sys::uio::RemoteIoVec { base: address as usize, len: into.len() };
        match nix::sys::uio::process_vm_readv(pid, &mut [io::IoSliceMut::new(into)], &[there]) {
            Ok(count) => count,
            Err(nix::errno::Errno::EFAULT) => 0,
            Err(_) => {
                self.direct.set(None);
                0
            }
        }
    }

    /// Fills the pieces of `length` bytes of `into` from the addresses, one each, as far as pages are there; gives how many
    /// were read whole, up to the first that could not be.
    pub fn read_each(&self, addresses: &[u64], length: usize, into: &mut [u8]) -> usize {
        let there = |address: &&u64| self.present_from(**address, length as u64) == length as u64;
        let wanted = addresses.iter().take_while(there).take(MOST_PIECES).count();
        let wanted = wanted.min(into.len().checked_div(length).unwrap_or(0));
        let (addresses, into) = (&addresses[..wanted], &mut into[..wanted * length]);
        let read = self.read_each_directly(addresses, length, into);
        let rest = addresses.iter().zip(into.chunks_exact_mut(length.max(1))).skip(read);
        let more = rest.map(|(address, piece)| self.read(*address, piece) == length);
        read + more.take_while(|whole| *whole).count()
    }

    fn read_each_directly(&self, addresses: &[u64], length: usize, into: &mut [u8]) -> usize {
        let Some(pid) = self.direct.get().filter(|_| !into.is_empty()) else { return 0 };
        let piece = |address: &u64| nix::sys::uio::RemoteIoVec { base: *address as usize, len: length };
        let there: Vec<_> = addresses.iter().map(piece).collect();
        let read =
            nix::sys::uio::process_vm_readv(pid, &mut [io::IoSliceMut::new(into)], &there).unwrap_or(0);
        self.read_bytes.set(self.read_bytes.get() + read as u64);
        read / length
    }

    /// How many bytes from `address` on, at most `length`, lie in pages that are there.
    fn present_from(&self, address: u64, length: u64) -> u64 {
        let Some(end) = address.checked_add(length).and_then(|end| end.checked_next_multiple_of(self.page))
        else {
            return 0;
        };
        let (mut number, last) = (address / self.page, end / self.page);
        let now = Instant::now();
        while number < last {
            let (window, nth) = (number / WINDOW_PAGES, number % WINDOW_PAGES);
            let bits = self.window(window, now);
            let there = run_from(&bits, nth).min(last - number);
            number += there;
            if there < WINDOW_PAGES - nth {
                break;
            }
        }
        (number * self.page).saturating_sub(address).min(length)
    }

    /// Which pages of a window are there, as it was a moment ago at most.
    fn window(&self, window: u64, now: Instant) -> Window {
        let mut windows = self.windows.borrow_mut();
        match windows.get(&window) {
            Some((asked, bits)) if now.saturating_duration_since(*asked) < FRESH => *bits,
            _ => {
                let bits = self.ask_window(window);
                windows.insert(window, (now, bits));
                bits
            }
        }
    }

    fn ask_window(&self, window: u64) -> Window {
        let mut bits = Window::default();
        let start = window.saturating_mul(WINDOW_PAGES * self.page);
        for (from, to) in self.present(start, start.saturating_add(WINDOW_PAGES * self.page)) {
            for page in (from..to).step_by(self.page as usize) {
                let nth = (page - start) / self.page;
                if let Some(word) = bits.get_mut((nth / 64) as usize) {
                    *word |= 1 << (nth % 64);
                }
            }
        }
        bits
    }
}

/// How many bits are set from `nth` on without a gap.
fn run_from(bits: &Window, nth: u64) -> u64 {
    let mut at = nth;
    while at < WINDOW_PAGES {
        let word = bits[(at / 64) as usize] >> (at % 64);
        let run = u64::from(word.trailing_ones());
        at += run;
        if run < 64 - (at - run) % 64 {
            break;
        }
    }
    at - nth
}
