//! perf's task records: a dummy event that every child inherits tells of its forks, execs and exits.
//!
//! Works without privileges where `perf_event_paranoid` is 2 or less, also inside pid namespaces, but sees only
//! what the opening thread starts afterwards. One ring of 32 KiB for each CPU, because an inherited event cannot
//! have one for all. It follows no program that gains privileges on exec (setuid), and it tells no exit codes.
#![allow(unsafe_code, reason = "perf_event_open has no wrapper, and its ring is shared memory")]

use super::{Drained, TaskEvent, trial};
use crate::{clock, host};
use lowtide_model::Reading;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of one ring, a power of two.
const RING_PAGES: usize = 8;
/// Events newer than this stay until the next drain: an older one may still be on its way in another CPU's ring.
const SETTLE_NS: u64 = 1_000_000;

/// The kernel's `perf_event_attr`, version 5.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_kind: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
const SAMPLE_TIME: u64 = 1 << 2;
/// inherit, exclude kernel and hypervisor, comm, task, watermark, stamps on all records, exec marked, own clock.
const FLAGS: u64 =
    (1 << 1) | (1 << 5) | (1 << 6) | (1 << 9) | (1 << 13) | (1 << 14) | (1 << 18) | (1 << 24) | (1 << 25);
const CLOSE_ON_EXEC: u64 = 1 << 3;

const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const COMM_IS_EXEC: u16 = 1 << 13;

#[derive(Debug)]
pub(super) struct Perf {
    epoll: Epoll,
    rings: Vec<Ring>,
    waiting: Vec<(u64, TaskEvent)>,
    settle_ns: u64,
}

impl Perf {
    pub(super) fn open() -> Reading<Self> {
        match Self::open_rings() {
            Ok(perf) => perf.proven(),
            Err(Errno::EPERM | Errno::EACCES) => Reading::Denied,
            Err(_) => Reading::Unsupported,
        }
    }

    fn open_rings() -> nix::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut rings = Vec::new();
        for cpu in 0..configured_cpus() {
            match Ring::open(cpu) {
                Ok(ring) => {
                    epoll.add(
                        &ring.event,
                        EpollEvent::new(EpollFlags::EPOLLIN, u64::from(cpu.unsigned_abs())),
                    )?;
                    rings.push(ring);
                }
                // Not online.
                Err(Errno::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { epoll, rings, waiting: Vec::new(), settle_ns: 0 })
    }

    fn proven(mut self) -> Reading<Self> {
        let Ok(fd) = self.epoll.0.try_clone() else {
            return Reading::Unsupported;
        };
        let told = trial::is_told(fd, |events| {
            self.drain(events);
        });
        self.settle_ns = SETTLE_NS;
        if told.is_some() { Reading::Known(self) } else { Reading::Unsupported }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    pub(super) fn drain(&mut self, out: &mut Vec<TaskEvent>) -> Drained {
        let settled = clock::boot_ns().saturating_sub(self.settle_ns);
        let mut lost = false;
        for ring in &mut self.rings {
            lost |= ring.drain(&mut self.waiting);
        }
        self.waiting.sort_by_key(|(at, _)| *at);
        let ready = self.waiting.partition_point(|(at, _)| *at <= settled);
        out.extend(self.waiting.drain(..ready).map(|(_, event)| event));
        Drained { lost }
    }
}

fn configured_cpus() -> i32 {
    let count = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_CONF);
    count.ok().flatten().and_then(|count| i32::try_from(count).ok()).unwrap_or(1)
}

/// The event and the ring of one CPU.
#[derive(Debug)]
struct Ring {
    event: OwnedFd,
    base: NonNull<AtomicU64>,
    page: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Where the kernel's and our position lie in the first page of the mapping, in words.
    const HEAD: usize = 1024 / 8;
    const TAIL: usize = 1032 / 8;

    fn open(cpu: i32) -> nix::Result<Self> {
        let attributes = Attributes {
            kind: SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: DUMMY,
            sample_type: SAMPLE_TIME,
            flags: FLAGS,
            wakeup_watermark: 1,
            clock: libc::CLOCK_BOOTTIME,
            ..Attributes::default()
        };
        // SAFETY: the kernel reads `size` bytes of the attributes; pid 0 is the calling thread.
        let fd = Errno::result(unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, cpu, -1, CLOSE_ON_EXEC)
        })?;
        // SAFETY: the call succeeded, so the descriptor is ours alone.
        let event = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let page = host::page_bytes() as usize;
        // SAFETY: a fresh mapping chosen by the kernel, unmapped in `drop`.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                (1 + RING_PAGES) * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let base = NonNull::new(base.cast::<AtomicU64>()).ok_or(Errno::ENOMEM)?;
        Ok(Self { event, base, page })
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped for as long as `self` lives, the offset counts whole words inside it, and
        // both sides access these words atomically.
        unsafe { self.base.add(offset).as_ref() }
    }

    /// Takes all records out of the ring; true when the kernel had to drop some.
    fn drain(&mut self, out: &mut Vec<(u64, TaskEvent)>) -> bool {
        let head = self.position(Self::HEAD).load(Ordering::Acquire);
        let mut tail = self.position(Self::TAIL).load(Ordering::Relaxed);
        let mut lost = false;
        let mut record = [0; 256];
        while tail < head {
            let mut header = [0; 8];
            self.copy(tail, &mut header);
            let (kind, misc, size) = split(header);
            if size < 8 {
                // Cannot happen; start anew rather than turn in circles.
                lost = true;
                tail = head;
                break;
            }
            let body = record.get_mut(..size.min(256)).unwrap_or_default();
            self.copy(tail, body);
            lost |= kind == LOST;
            out.extend(event(kind, misc, body));
            tail += size as u64;
        }
        self.position(Self::TAIL).store(tail, Ordering::Release);
        lost
    }

    /// Copies from the ring, around its end.
    fn copy(&self, from: u64, to: &mut [u8]) {
        let ring = RING_PAGES * self.page;
        for (index, byte) in to.iter_mut().enumerate() {
            let at = self.page + (from as usize + index) % ring;
            // SAFETY: `at` lies inside the mapping; the kernel does not write what lies between tail and head.
            *byte = unsafe { self.base.cast::<u8>().add(at).read_volatile() };
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `open` mapped; nothing borrows it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), (1 + RING_PAGES) * self.page) };
    }
}

/// The header of a record: kind, flags, size.
fn split(header: [u8; 8]) -> (u32, u16, usize) {
    let [k0, k1, k2, k3, misc @ .., s0, s1] = header;
    (
        u32::from_ne_bytes([k0, k1, k2, k3]),
        u16::from_ne_bytes(misc),
        usize::from(u16::from_ne_bytes([s0, s1])),
    )
}

/// Reads one record; `None` for threads and for renames that are no exec.
fn event(kind: u32, misc: u16, record: &[u8]) -> Option<(u64, TaskEvent)> {
    let word = |at: usize| record.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let stamp = record.last_chunk::<8>().copied().map(u64::from_ne_bytes)?;
    let at = Some(stamp);
    let (pid, second, third) = (word(8)?, word(12)?, word(16));
    let event = match kind {
        // Both are: process, parent process, thread, parent thread.
        FORK if third == Some(pid) => TaskEvent::Fork { parent: second, child: pid, at },
        EXIT if third == Some(pid) => TaskEvent::Exit { pid, at, exit: None },
        COMM if misc & COMM_IS_EXEC != 0 && second == pid => TaskEvent::Exec { pid, at },
        _ => return None,
    };
    Some((stamp, event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, misc: u16, words: &[u32]) -> Option<(u64, TaskEvent)> {
        let mut bytes = vec![0; 8];
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend_from_slice(&77_u64.to_ne_bytes());
        event(kind, misc, &bytes)
    }

    #[test]
    fn processes_are_told_and_threads_and_renames_are_not() {
        let at = Some(77);
        assert_eq!(
            record(FORK, 0, &[20, 10, 20, 11]),
            Some((77, TaskEvent::Fork { parent: 10, child: 20, at }))
        );
        assert_eq!(record(FORK, 0, &[10, 10, 21, 10]), None);
        assert_eq!(
            record(EXIT, 0, &[20, 10, 20, 10]),
            Some((77, TaskEvent::Exit { pid: 20, at, exit: None }))
        );
        assert_eq!(record(EXIT, 0, &[20, 10, 21, 10]), None);
        assert_eq!(record(COMM, COMM_IS_EXEC, &[20, 20, 0, 0]), Some((77, TaskEvent::Exec { pid: 20, at })));
        assert_eq!(record(COMM, 0, &[20, 20, 0, 0]), None);
    }

    #[test]
    fn a_header_is_split_into_kind_flags_and_size() {
        let header = [7_u32.to_ne_bytes().as_slice(), &3_u16.to_ne_bytes(), &40_u16.to_ne_bytes()].concat();
        assert_eq!(split(header.try_into().unwrap()), (7, 3, 40));
    }

    proptest! {
        #[test]
        fn no_record_panics(kind in 0_u32..20, misc: u16, bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = event(kind, misc, &bytes);
        }
    }
}
