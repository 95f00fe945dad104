//! Signals as something to poll, so that a terminal in raw mode is put back before we go.
//!
//! The signals are blocked in this thread and arrive through a descriptor; both commands that use this run on one thread.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::{AsFd, BorrowedFd};

/// Signals that wait in a descriptor for as long as this lives.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: SignalFd,
    before: SigSet,
}

impl Signals {
    /// Catches these signals from now on.
    pub(crate) fn catch(signals: &[Signal]) -> Result<Self, Errno> {
        let set: SigSet = signals.iter().copied().collect();
        let before = set.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK)?;
        match SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC) {
            Ok(fd) => Ok(Self { fd, before }),
            Err(errno) => {
                let _ = before.thread_set_mask();
                Err(errno)
            }
        }
    }

    /// The next signal that came, if one did.
    pub(crate) fn next(&mut self) -> Option<Signal> {
        let info = self.fd.read_signal().ok().flatten()?;
        Signal::try_from(info.ssi_signo as i32).ok()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}
