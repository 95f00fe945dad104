#![allow(unsafe_code, reason = "PAGEMAP_SCAN is an ioctl")]
//! Which pages of a process are in memory, asked of the kernel without touching them.
//!
//! Why: reading a page that was never touched makes page tables, reading a swapped one swaps it in, and reading one
//! that userfaultfd owns waits for ever. `PAGEMAP_SCAN` (Linux 6.7) tells all of this and leaves out the zero page and
//! what a driver put there; before that, `pagemap` tells present from swapped, and a zero page looks like any other
//! shared page (reading it is harmless).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

/// A run of pages: first address, first address behind it.
pub(super) type Run = (u64, u64);

const PRESENT: u64 = 1 << 63;
/// Entries of `pagemap` read at once: 32 Ki pages, so the memory map is held for about a millisecond at a time.
const CHUNK: usize = 256 << 10;
/// Runs taken from one call of `PAGEMAP_SCAN`.
const MOST_RUNS: usize = 2048;

/// Categories of `linux/fs.h`.
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

nix::ioctl_readwrite!(pagemap_scan, b'f', 16, ScanArgument);

/// How the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// `PAGEMAP_SCAN`.
    Scan,
    /// The entries of `pagemap`.
    Entries,
}

/// The page states of one process.
#[derive(Debug)]
pub(super) struct Pages {
    pagemap: File,
    page: u64,
    way: Way,
}

impl Pages {
    /// Takes `PAGEMAP_SCAN` where the kernel has it.
    pub(super) fn new(pagemap: File, page: u64) -> Self {
        let mut probe = ScanArgument { size: size_of::<ScanArgument>() as u64, ..ScanArgument::default() };
        let way = if scan_once(&pagemap, &mut probe).is_ok() { Way::Scan } else { Way::Entries };
        Self { pagemap, page, way }
    }

    #[cfg(test)]
    pub(super) fn by(pagemap: File, page: u64, way: Way) -> Self {
        Self { pagemap, page, way }
    }

    #[cfg(test)]
    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// Adds the runs of present pages inside `[start, end)`, ascending. A process that is gone has none.
    pub(super) fn present(&self, start: u64, end: u64, runs: &mut Vec<Run>) {
        let _ = match self.way {
            Way::Scan => self.by_scan(start, end, runs),
            Way::Entries => self.by_entries(start, end, runs),
        };
    }

    fn by_scan(&self, start: u64, end: u64, runs: &mut Vec<Run>) -> io::Result<()> {
        let room = MOST_RUNS.min(((end - start) / self.page) as usize / 2 + 1);
        let mut found = vec![PageRegion::default(); room];
        let mut at = start;
        while at < end {
            let mut argument = ScanArgument {
                size: size_of::<ScanArgument>() as u64,
                start: at,
                end,
                vec: found.as_mut_ptr() as u64,
                vec_len: found.len() as u64,
                category_inverted: PAGE_IS_PFNZERO,
                category_mask: PAGE_IS_PRESENT | PAGE_IS_PFNZERO,
                return_mask: PAGE_IS_PRESENT,
                ..ScanArgument::default()
            };
            let count = scan_once(&self.pagemap, &mut argument)?;
            let from = at;
            for region in found.iter().take(count) {
                if region.end > at {
                    push(runs, region.start.max(at), region.end);
                    at = region.end;
                }
            }
            // A call that ran out of room may say that it walked less far than what it gave: what it gave counts.
            at = at.max(argument.walk_end);
            if at == from {
                break;
            }
        }
        Ok(())
    }

    fn by_entries(&self, start: u64, end: u64, runs: &mut Vec<Run>) -> io::Result<()> {
        let (mut at, last) = (start / self.page, end / self.page);
        let mut buffer = vec![0; CHUNK.min((last - at) as usize * 8)];
        while at < last {
            let want = ((last - at) as usize * 8).min(buffer.len());
            let count = self.pagemap.read_at(buffer.get_mut(..want).unwrap_or_default(), at * 8)?;
            let (entries, _) = buffer.get(..count).unwrap_or_default().as_chunks::<8>();
            if entries.is_empty() {
                break;
            }
            for (nth, entry) in entries.iter().enumerate() {
                if u64::from_ne_bytes(*entry) & PRESENT != 0 {
                    let page = (at + nth as u64) * self.page;
                    push(runs, page, page + self.page);
                }
            }
            at += entries.len() as u64;
        }
        Ok(())
    }
}

/// Adds a run, joined to the last one where they touch.
fn push(runs: &mut Vec<Run>, start: u64, end: u64) {
    match runs.last_mut() {
        Some(last) if last.1 == start => last.1 = end,
        _ => runs.push((start, end)),
    }
}

fn scan_once(pagemap: &File, argument: &mut ScanArgument) -> io::Result<usize> {
    // SAFETY: `argument` is a whole pm_scan_arg, and its `vec` is null with length 0 or points to `vec_len` live
    // PageRegions that nobody else uses during the call.
    let count = unsafe { pagemap_scan(pagemap.as_fd().as_raw_fd(), std::ptr::from_mut(argument)) }?;
    Ok(usize::try_from(count).unwrap_or(0))
}
