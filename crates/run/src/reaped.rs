//! What the kernel says of a process that ended and that we waited for: its exit code, and the most memory it held.
//!
//! Why the memory: a sample sees what was there at a tick, `VmHWM` what was there before it; what came after the last one
//! only `ru_maxrss` knows. But it is the largest of the process, of all it waited for, and of what ran in it before its
//! exec: of the job's first process that was us.

use crate::snapshot::own_peak;
use lowtide_model::{Bytes, Exit};
use std::collections::BTreeMap;

/// The end of a process that was waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reap {
    pub(crate) exit: Exit,
    /// The largest RSS of one process of the job; none where it may have been ours.
    pub(crate) peak: Option<Bytes>,
}

/// Ends of the job and of orphans that came to us, until the tree notices that they are gone.
#[derive(Debug, Default)]
pub(crate) struct Reaped {
    ends: BTreeMap<u32, Reap>,
}

impl Reaped {
    /// More than this many unclaimed ends are forgotten: the tree learnt of those deaths another way.
    const MOST: usize = 4096;

    pub(crate) fn put(&mut self, pid: u32, reap: Reap) {
        if self.ends.len() >= Self::MOST {
            self.ends.clear();
        }
        self.ends.insert(pid, reap);
    }

    pub(crate) fn has(&self, pid: u32) -> bool {
        self.ends.contains_key(&pid)
    }

    pub(crate) fn take(&mut self, pid: u32) -> Option<Reap> {
        self.ends.remove(&pid)
    }
}

/// Collects one child that has ended, ours or an orphan's, if there is one.
#[allow(unsafe_code, reason = "nix has no wait4, and can't tell a death by a real-time signal")]
pub(crate) fn reap_one() -> Option<(u32, Reap)> {
    loop {
        let mut status = 0;
        // SAFETY: all zeroes is a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: status and usage live through the call.
        let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
        match u32::try_from(pid) {
            Ok(0) => return None,
            Ok(pid) => {
                let signal = libc::WIFSIGNALED(status).then(|| Exit::Signal(libc::WTERMSIG(status)));
                let exit = signal.unwrap_or_else(|| Exit::Code(libc::WEXITSTATUS(status)));
                let peak = Bytes::from_kib(u64::try_from(usage.ru_maxrss).unwrap_or(0));
                return Some((pid, Reap { exit, peak: Some(peak).filter(|peak| *peak > own_peak()) }));
            }
            Err(_) if nix::errno::Errno::last() == nix::errno::Errno::EINTR => {}
            Err(_) => return None,
        }
    }
}
