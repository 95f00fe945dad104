//! Memory that a process holds to the page: grown by touching, given back at once.

use std::process::exit;

const PAGE: usize = 4096;
/// Since Linux 5.14; libc does not name it everywhere.
const MADV_POPULATE_WRITE: i32 = 23;

/// A stretch of address space of which the first part is touched.
pub(crate) struct Held {
    start: *mut u8,
    size: usize,
    used: usize,
    threads: usize,
}

impl Held {
    /// So much address space, touched by so many threads at a time. With several threads speed is the point, and the
    /// kernel may use huge pages; with one it is exact.
    pub(crate) fn reserve(bytes: usize, threads: usize) -> Self {
        let size = bytes.next_multiple_of(PAGE).max(PAGE);
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a fresh anonymous mapping touches nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            exit(71);
        }
        let advice = if threads > 1 { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the range is the mapping made above; the advice changes no content.
        unsafe { libc::madvise(start, size, advice) };
        Self { start: start.cast(), size, used: 0, threads }
    }

    /// Holds so much from now on.
    pub(crate) fn set(&mut self, bytes: usize) {
        let wanted = bytes.next_multiple_of(PAGE).min(self.size);
        if wanted > self.used {
            self.touch(self.used, wanted);
        } else if wanted < self.used {
            // SAFETY: the range lies in the mapping, and nothing refers to what is in it.
            unsafe { libc::madvise(self.start.add(wanted).cast(), self.used - wanted, libc::MADV_DONTNEED) };
        }
        self.used = wanted;
    }

    fn touch(&self, from: usize, to: usize) {
        let each = ((to - from) / self.threads).next_multiple_of(PAGE).max(PAGE);
        let start = self.start as usize;
        std::thread::scope(|scope| {
            for part in (from..to).step_by(each) {
                let end = (part + each).min(to);
                if self.threads == 1 {
                    populate(start + part, end - part);
                } else {
                    scope.spawn(move || populate(start + part, end - part));
                }
            }
        });
    }
}

/// Makes these pages the process's own, each once.
fn populate(at: usize, bytes: usize) {
    let start = at as *mut u8;
    // SAFETY: callers pass a part of their own private mapping; populating changes no content.
    let done = unsafe { libc::madvise(start.cast(), bytes, MADV_POPULATE_WRITE) } == 0;
    for offset in (0..bytes).step_by(PAGE).filter(|_| !done) {
        // SAFETY: as above; every offset lies inside the part.
        unsafe { start.add(offset).write_volatile(1) };
    }
}
