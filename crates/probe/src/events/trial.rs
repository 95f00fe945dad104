//! Starts a child that ends at once, to see whether a source tells of it.
#![allow(unsafe_code, reason = "a child without SIGCHLD needs the raw clone call")]

use super::TaskEvent;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a source may take to tell. Both kernel sources tell before the call that forks returns; this is for
/// a machine under load.
const PATIENCE: Duration = Duration::from_millis(50);

/// When a child was started whose fork and exit were both told; `None` if they were not.
pub(super) fn is_told(fd: impl AsFd, mut drain: impl FnMut(&mut Vec<TaskEvent>)) -> Option<u64> {
    let child = short_lived_child()?;
    let mut events = Vec::new();
    let begun = Instant::now();
    loop {
        drain(&mut events);
        if let Some(at) = told(&events, child) {
            return Some(at);
        }
        let left = PATIENCE.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return None;
        }
        let step = left.min(Duration::from_millis(10));
        let timeout = PollTimeout::try_from(step).unwrap_or(PollTimeout::ZERO);
        // Readable, late or interrupted: in each case look again.
        let _ = poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], timeout);
    }
}

fn told(events: &[TaskEvent], child: u32) -> Option<u64> {
    let born = events.iter().find_map(|event| match event {
        TaskEvent::Fork { child: pid, at, .. } if *pid == child => *at,
        TaskEvent::Fork { .. } | TaskEvent::Exec { .. } | TaskEvent::Exit { .. } => None,
    })?;
    let died = events.iter().any(|event| matches!(event, TaskEvent::Exit { pid, .. } if *pid == child));
    died.then_some(born)
}

/// A child that does nothing until it is dropped.
#[derive(Debug)]
pub(crate) struct PausedChild {
    pid: Pid,
}

impl PausedChild {
    /// Starts it.
    pub(crate) fn start() -> Option<Self> {
        let pid = clone()?;
        if pid == 0 {
            loop {
                // SAFETY: waits for a signal; touches no memory of its parent.
                unsafe { libc::syscall(libc::SYS_ppoll, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize) };
            }
        }
        Some(Self { pid: Pid::from_raw(pid) })
    }

    /// Its pid.
    pub(crate) const fn pid(&self) -> u32 {
        self.pid.as_raw().cast_unsigned()
    }
}

impl Drop for PausedChild {
    fn drop(&mut self) {
        // It may be gone already: then there is nothing to do.
        let _ = nix::sys::signal::kill(self.pid, nix::sys::signal::Signal::SIGKILL);
        reap(self.pid);
    }
}

/// Forks: 0 in the child. The child sends no SIGCHLD, and a plain `waitpid(-1)` elsewhere does not see it.
fn clone() -> Option<i32> {
    // SAFETY: without flags this is fork; the callers' children make system calls only.
    let pid = unsafe { libc::syscall(libc::SYS_clone, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize) };
    i32::try_from(pid).ok().filter(|pid| *pid >= 0)
}

fn reap(pid: Pid) {
    while waitpid(pid, Some(WaitPidFlag::__WALL)) == Err(nix::errno::Errno::EINTR) {}
}

/// Starts a child that does nothing, waits for its end and tells its pid.
fn short_lived_child() -> Option<u32> {
    let pid = clone()?;
    if pid == 0 {
        // SAFETY: ends the child at once, without running anything that fork may have left half done.
        unsafe { libc::syscall(libc::SYS_exit_group, 0_usize) };
    }
    reap(Pid::from_raw(pid));
    u32::try_from(pid).ok()
}
