//! Files of one process: `/proc/PID/...`.

use super::{ARGV_CAP, hexadecimal, lines, number, signed, text, value_of, words};
use crate::clock::NS_PER_TICK;
use lowtide_model::{Bytes, Exit, Limit, Pss};

/// `statm`: the cheap numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statm {
    /// Address space.
    pub size: Bytes,
    /// Resident memory. Linux 6.2 to 6.15 report it off by up to CPUs x max(32, 2 CPUs) pages.
    pub rss: Bytes,
    /// The part of it that belongs to files and shared memory.
    pub shared: Bytes,
}

/// Reads `statm`, which counts in pages.
pub fn statm(bytes: &[u8], page: u64) -> Option<Statm> {
    let mut fields = words(bytes).map(|word| number(word).map(|pages| Bytes::from_pages(pages, page)));
    Some(Statm { size: fields.next()??, rss: fields.next()??, shared: fields.next()?? })
}

/// `stat`: the life of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Pid.
    pub pid: u32,
    /// The kernel's letter: R, S, D, Z (dead, not yet reaped), T, ...
    pub state: char,
    /// Parent, or the process it was given to when the parent died.
    pub ppid: u32,
    /// Process group.
    pub group: u32,
    /// Session: equal to the pid for a session leader.
    pub session: u32,
    /// Device number of the controlling terminal; 0 when there is none.
    pub terminal: i32,
    /// Kernel flags (`PF_*`).
    pub flags: u64,
    /// Minor faults since its birth.
    pub minor_faults: u64,
    /// Major faults since its birth.
    pub major_faults: u64,
    /// User plus system CPU time, in steps of 10 ms.
    pub cpu_ns: u64,
    /// Threads.
    pub threads: u32,
    /// Start in clock ticks since boot.
    pub start_ticks: u64,
    /// Where its code and its stack begin: drawn anew by every exec, inherited by fork. `None` to those who may not
    /// know, and for threads of the kernel.
    pub layout: Option<(u64, u64)>,
    /// The wait status of a dead process that was not yet reaped. The kernel says 0 to those who may not know.
    pub wait_status: Option<i32>,
}

impl Stat {
    const KERNEL_THREAD: u64 = 0x0020_0000;

    /// Whether it has ended and only waits to be reaped. A leader that ended before its threads is not dead.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'X' | 'x') || (self.state == 'Z' && self.threads <= 1)
    }

    /// Whether this is a thread of the kernel itself.
    pub const fn is_kernel_thread(&self) -> bool {
        self.flags & Self::KERNEL_THREAD != 0
    }

    /// How a dead process ended. A 0 is not believed: it is also what the kernel tells strangers.
    pub fn exit(&self) -> Option<Exit> {
        self.wait_status.filter(|status| self.is_dead() && *status != 0).map(exit_of)
    }
}

/// What a wait status says.
pub(crate) const fn exit_of(status: i32) -> Exit {
    match status & 0x7f {
        0 => Exit::Code((status >> 8) & 0xff),
        signal => Exit::Signal(signal),
    }
}

/// Reads `stat`. The name in it may hold anything, so the fields begin behind the last parenthesis.
pub fn stat(bytes: &[u8]) -> Option<Stat> {
    let open = bytes.iter().position(|byte| *byte == b'(')?;
    let close = bytes.iter().rposition(|byte| *byte == b')')?;
    let pid = number(words(bytes.get(..open)?).next()?)?;
    let mut fields = words(bytes.get(close + 1..)?);
    let mut field = |skip: usize| fields.nth(skip);
    let state = char::from(*field(0)?.first()?);
    let mut next = |skip: usize| field(skip).and_then(signed);
    let (ppid, group, session, terminal) = (next(0)?, next(0)?, next(0)?, next(0)?);
    let (flags, minor, major) = (next(1)?, next(0)?, next(1)?);
    let (user, system) = (next(1)?, next(0)?);
    let (threads, start) = (next(4)?, next(1)?);
    let unsigned = |value: i64| u32::try_from(value).unwrap_or(0);
    let mut address = |skip: usize| fields.nth(skip).and_then(number).filter(|address| *address > 1);
    let (code, stack) = (address(3), address(1));
    Some(Stat {
        pid: u32::try_from(pid).ok()?,
        state,
        ppid: unsigned(ppid),
        group: unsigned(group),
        session: unsigned(session),
        terminal: i32::try_from(terminal).unwrap_or(0),
        flags: flags.cast_unsigned(),
        minor_faults: u64::try_from(minor).ok()?,
        major_faults: u64::try_from(major).ok()?,
        cpu_ns: u64::try_from(user.saturating_add(system)).ok()?.saturating_mul(NS_PER_TICK),
        threads: unsigned(threads),
        start_ticks: u64::try_from(start).ok()?,
        layout: code.zip(stack),
        wait_status: fields.nth(23).and_then(signed).and_then(|status| i32::try_from(status).ok()),
    })
}

/// The name in `stat`, as the kernel knows it.
pub fn comm(bytes: &[u8]) -> Option<String> {
    let open = bytes.iter().position(|byte| *byte == b'(')?;
    let close = bytes.iter().rposition(|byte| *byte == b')')?;
    bytes.get(open + 1..close).map(text)
}

/// `status`: what kind of memory it is. Each field is there or not, by kernel and by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Anonymous resident memory.
    pub anon: Option<Bytes>,
    /// File-backed resident memory.
    pub file: Option<Bytes>,
    /// Resident shared memory.
    pub shmem: Option<Bytes>,
    /// Swapped out.
    pub swap: Option<Bytes>,
    /// Locked with mlock (`VmLck`).
    pub locked: Option<Bytes>,
    /// Pinned by drivers, which is what a GPU's page-locked memory is (`VmPin`).
    pub pinned: Option<Bytes>,
    /// Largest resident size so far (`VmHWM`).
    pub peak_rss: Option<Bytes>,
    /// Address space.
    pub size: Option<Bytes>,
    /// Resident memory.
    pub rss: Option<Bytes>,
    /// Threads.
    pub threads: Option<u32>,
    /// The process a thread belongs to; equal to the pid for a process.
    pub group_pid: Option<u32>,
    /// Real user id.
    pub uid: Option<u32>,
    /// The signals it has a handler for, bit n-1 for signal n.
    pub caught_signals: Option<u64>,
    /// Its pid in the innermost pid namespace it lives in.
    pub namespace_pid: Option<u32>,
}

impl Status {
    /// Locked or pinned: what cannot be swapped or moved.
    pub fn held_in_place(&self) -> Option<Bytes> {
        Some(self.locked?.saturating_add(self.pinned.unwrap_or_default()))
    }

    /// Whether it has a handler for this signal.
    pub fn catches(&self, signal: i32) -> Option<bool> {
        let bit = u32::try_from(signal).ok()?.checked_sub(1)?;
        Some(self.caught_signals?.checked_shr(bit)? & 1 == 1)
    }
}

/// Reads `status`. `None` when it is no such file at all.
pub fn status(bytes: &[u8]) -> Option<Status> {
    let mut status = Status::default();
    let mut known = false;
    for line in lines(bytes) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (key, rest) = line.split_at(colon);
        let value = rest.get(1..).unwrap_or_default();
        let first = || words(value).next();
        let size = || first().and_then(number).map(Bytes::from_kib);
        let count = || first().and_then(number).and_then(|count| u32::try_from(count).ok());
        match key {
            b"Name" | b"State" => known = true,
            b"Tgid" => status.group_pid = count(),
            b"Uid" => status.uid = count(),
            b"NStgid" => {
                status.namespace_pid =
                    words(value).last().and_then(number).and_then(|pid| u32::try_from(pid).ok());
            }
            b"VmSize" => status.size = size(),
            b"VmLck" => status.locked = size(),
            b"VmPin" => status.pinned = size(),
            b"VmHWM" => status.peak_rss = size(),
            b"VmRSS" => status.rss = size(),
            b"RssAnon" => status.anon = size(),
            b"RssFile" => status.file = size(),
            b"RssShmem" => status.shmem = size(),
            b"VmSwap" => status.swap = size(),
            b"Threads" => status.threads = count(),
            b"SigCgt" => {
                status.caught_signals = first().and_then(hexadecimal);
                // All that is wanted stands above this line.
                break;
            }
            _ => {}
        }
    }
    known.then_some(status)
}

/// Reads `smaps_rollup`.
pub fn smaps_rollup(bytes: &[u8]) -> Option<Pss> {
    let find =
        |key: &[u8]| lines(bytes).find_map(|line| value_of(line, key)).and_then(number).map(Bytes::from_kib);
    let (private_dirty, shared_dirty) = (find(b"Private_Dirty")?, find(b"Shared_Dirty")?);
    Some(Pss {
        pss: find(b"Pss")?,
        pss_anon: find(b"Pss_Anon"),
        private: find(b"Private_Clean")?.saturating_add(private_dirty),
        shared: find(b"Shared_Clean")?.saturating_add(shared_dirty),
        private_dirty,
        shared_dirty,
    })
}

/// The soft limit of the address space, from `limits`.
pub fn address_space_limit(bytes: &[u8]) -> Option<Limit> {
    let line = lines(bytes).find_map(|line| line.strip_prefix(b"Max address space"))?;
    match words(line).next()? {
        b"unlimited" => Some(Limit::Unlimited),
        size => number(size).map(|size| Limit::At(Bytes(size))),
    }
}

/// The arguments, lossily as text, cut off at [`ARGV_CAP`] bytes.
pub fn cmdline(bytes: &[u8]) -> Vec<String> {
    let cut = bytes.get(..ARGV_CAP).unwrap_or(bytes);
    // A program that rewrites its title (setproctitle) may leave padding behind; arguments may also be empty.
    let end = cut.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    match cut.get(..end) {
        None | Some([]) => Vec::new(),
        Some(arguments) => arguments.split(|byte| *byte == 0).map(text).collect(),
    }
}

/// The variables of `environ` whose name `wanted` accepts; all others are dropped unread.
pub fn environ(bytes: &[u8], wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    bytes
        .split(|byte| *byte == 0)
        .filter_map(|entry| {
            let equals = entry.iter().position(|byte| *byte == b'=')?;
            let name = std::str::from_utf8(entry.get(..equals)?).ok().filter(|name| wanted(name))?;
            let value = entry.get(equals + 1..)?;
            Some((name.to_owned(), text(value.get(..ARGV_CAP).unwrap_or(value))))
        })
        .collect()
}

/// One line of `maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Whether it can be read or written at all.
    pub accessible: bool,
    /// Whether writes stay private to the process.
    pub private: bool,
}

/// Reads one line of `maps`.
pub fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut fields = words(line);
    let range = fields.next()?;
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let permissions = fields.next()?;
    let (start, end) = (hexadecimal(range.get(..dash)?)?, hexadecimal(range.get(dash + 1..)?)?);
    (start < end).then_some(Mapping {
        start,
        end,
        accessible: permissions.iter().take(3).any(|letter| *letter != b'-'),
        private: permissions.get(3) == Some(&b'p'),
    })
}
