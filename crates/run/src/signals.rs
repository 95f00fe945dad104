//! Signals: every one sent to lowtide reaches the job exactly once.
//!
//! Slurm, Kubernetes and systemd see only lowtide, so a signal sent to it must be passed on. But a Ctrl-C goes to the
//! whole foreground group, `timeout` signals the group too, and Slurm signals every process of a step: then the job
//! has it already, and passing it on would be a second one (a second SIGINT aborts a save). The two cases look the
//! same to us, so a **witness** stands beside us: a process that does nothing and blocks everything. If the signal is
//! pending there as well, the sender addressed everybody.

use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid, getpgid, getpgrp};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// What is passed on.
pub(crate) const PASSED_ON: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// A sender that signals many processes one by one needs a moment to reach the witness.
const GRACE: Duration = Duration::from_millis(20);

/// The signals we take, as a descriptor to poll.
pub(crate) struct Signals {
    fd: SignalFd,
    before: SigSet,
}

impl Signals {
    /// Blocks and takes them. From here on nothing interrupts us; `before` is for the job.
    pub(crate) fn take() -> nix::Result<Self> {
        let mut set = SigSet::from_iter(PASSED_ON);
        set.add(Signal::SIGCHLD);
        let before = set.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK)?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { fd, before })
    }

    pub(crate) fn mask_before(&self) -> SigSet {
        self.before
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

/// A process whose pending signals tell whether a sender addressed everybody.
pub(crate) struct Witness {
    pid: Pid,
    status: File,
    ask: File,
    answer: File,
}

/// Where the witness stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// In our process group, where the job is too.
    InOurGroup,
    /// In a session of its own, because the job has one.
    Apart,
}

impl Witness {
    /// Must be called before any thread is started and after the signals are blocked.
    #[allow(unsafe_code, reason = "fork has no safe interface")]
    pub(crate) fn post(stand: Stand) -> std::io::Result<Self> {
        let (asked, ask) = pipe()?;
        let (answer, answering) = pipe()?;
        // SAFETY: no other thread exists yet, so the child may do anything; it only blocks, waits and exits.
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Child => {
                drop((ask, answer));
                let_go_of_all_but(asked.as_raw_fd(), answering.as_raw_fd());
                if stand == Stand::Apart {
                    let _ = nix::unistd::setsid();
                }
                stand_by(File::from(asked), File::from(answering))
            }
            ForkResult::Parent { child } => {
                let status = File::open(format!("/proc/{child}/status"))?;
                Ok(Self { pid: child, status, ask: File::from(ask), answer: File::from(answer) })
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw() as u32
    }

    /// Whether this signal, which we have got, was sent to the witness as well. Forgets it afterwards.
    fn saw(&mut self, signal: Signal) -> bool {
        let mut seen = self.pending(signal);
        for _ in 0..10 {
            if seen {
                break;
            }
            std::thread::sleep(GRACE / 10);
            seen = self.pending(signal);
        }
        if seen && self.ask.write_all(&[signal as u8]).is_ok() {
            let _ = self.answer.read(&mut [0]);
        }
        seen
    }

    fn pending(&mut self, signal: Signal) -> bool {
        use std::os::unix::fs::FileExt;
        let mut text = [0; 4096];
        let Ok(length) = self.status.read_at(&mut text, 0) else {
            return false;
        };
        let status = &text[..length];
        (mask(status, "SigPnd:") | mask(status, "ShdPnd:")) & bit(signal) != 0
    }

    /// Sends it away.
    pub(crate) fn dismiss(self) {
        drop(self.ask);
        let _ = nix::sys::wait::waitpid(self.pid, None);
    }
}

/// The witness is a double of the recorder: what it held open of the job's would keep a relay waiting for an end.
#[allow(unsafe_code, reason = "closing a range of descriptors has no safe interface")]
fn let_go_of_all_but(one: i32, other: i32) {
    let (low, high) = (one.min(other), one.max(other));
    for (first, last) in [(3, low - 1), (low + 1, high - 1), (high + 1, i32::MAX)] {
        if first <= last {
            // SAFETY: nothing in this process uses these descriptors any more; an old kernel only says no.
            let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

fn pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
}

/// One set of signals in a process's status.
fn mask(status: &[u8], name: &str) -> u64 {
    let text = String::from_utf8_lossy(status);
    let mask = |line: &str| u64::from_str_radix(line.strip_prefix(name)?.trim(), 16).ok();
    text.lines().find_map(mask).unwrap_or(0)
}

/// Its bit in such a set.
fn bit(signal: Signal) -> u64 {
    1 << (signal as u32 - 1)
}

/// The witness's whole life: everything blocked, forgetting one pending signal whenever asked, until we are gone.
///
/// Only the one asked for: the next may already be pending and must still be seen.
#[allow(unsafe_code, reason = "a forked child leaves by _exit, and takes a pending signal with sigtimedwait")]
fn stand_by(mut asked: File, mut answering: File) -> ! {
    let _ = SigSet::all().thread_block();
    let mut number = [0];
    while matches!(asked.read(&mut number), Ok(1)) {
        let set = SigSet::from_iter(Signal::try_from(i32::from(number[0])));
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: set and none live through the call, and a null info pointer is allowed.
        let _ = unsafe { libc::sigtimedwait(set.as_ref(), std::ptr::null_mut(), &raw const none) };
        let _ = answering.write_all(&[0]);
    }
    // SAFETY: leaves without running the parent's exit handlers.
    unsafe { libc::_exit(0) }
}

/// Whether a process has a handler for a signal.
pub(crate) fn catches(pid: u32, signal: Signal) -> bool {
    let status = std::fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    mask(&status, "SigCgt:") & bit(signal) != 0
}

/// Passes signals on to the job.
pub(crate) struct Forwarder {
    pub(crate) job: Pid,
    pub(crate) witness: Option<Witness>,
    pub(crate) stand: Stand,
}

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// We sent it to the job.
    ByUs,
    /// The job had it from the sender.
    BySender,
    /// The job is gone.
    Nobody,
}

impl Forwarder {
    /// Sees to it that the job gets this signal once.
    pub(crate) fn pass_on(&mut self, signal: Signal) -> Passed {
        let everybody = self.witness.as_mut().is_some_and(|witness| witness.saw(signal));
        if everybody && self.job_was_addressed() {
            return Passed::BySender;
        }
        match self.send(signal) {
            Ok(()) => Passed::ByUs,
            Err(_) => Passed::Nobody,
        }
    }

    /// A job in a session of its own has no shell above it, and the kernel drops SIGTSTP there: it is stopped in the way
    /// that always works, and with it its group, which the terminal's Ctrl-Z would have reached.
    fn send(&self, signal: Signal) -> nix::Result<()> {
        match (self.stand, signal) {
            (Stand::Apart, Signal::SIGTSTP) if !self.handles(signal) => killpg(self.job, Signal::SIGSTOP),
            (Stand::Apart, Signal::SIGCONT) => killpg(self.job, signal),
            _ => kill(self.job, signal),
        }
    }

    /// Whether the job catches or ignores a signal.
    fn handles(&self, signal: Signal) -> bool {
        let status = std::fs::read(format!("/proc/{}/status", self.job)).unwrap_or_default();
        (mask(&status, "SigCgt:") | mask(&status, "SigIgn:")) & bit(signal) != 0
    }

    /// A job that left our group does not get what is sent to the group.
    fn job_was_addressed(&self) -> bool {
        self.stand == Stand::Apart || getpgid(Some(self.job)) == Ok(getpgrp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_signals_are_read_from_both_lines() {
        let status =
            b"Name:\tx\nSigPnd:\t0000000000000002\nShdPnd:\t0000000000004000\nSigBlk:\tffffffffffffffff\n";
        assert_eq!((mask(status, "SigPnd:"), mask(status, "ShdPnd:")), (2, 0x4000));
        assert_eq!(mask(b"garbage", "SigPnd:"), 0);
    }
}
