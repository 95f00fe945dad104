//! How a process that is not our child ended, where the kernel keeps that for us (Linux 6.15 on).
//!
//! A process descriptor taken while the process lives is told its exit status once its parent has reaped it. Before
//! 6.15, or while it is still unreaped, the answer is unknown.
#![allow(unsafe_code, reason = "the calls on process descriptors have no safe wrapper")]

use crate::parse::exit_of;
use lowtide_model::{Exit, Reading};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The kernel's `pidfd_info`, first version.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    /// pid, group, parent, and the user and group ids.
    ids: [u32; 11],
    exit_code: i32,
}

const WANT_EXIT: u64 = 1 << 3;

nix::ioctl_readwrite!(get_info, 0xff, 11, Info);

/// Waits for the end of any process. It cannot become another process's.
#[derive(Debug)]
pub struct Ending {
    descriptor: OwnedFd,
}

impl Ending {
    /// Takes a descriptor of the process that has this pid now (Linux 5.3 on).
    pub fn of(pid: u32) -> Reading<Self> {
        // SAFETY: plain system call; the result is checked.
        let result = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) });
        match result {
            // SAFETY: the call succeeded, so the descriptor is ours alone.
            Ok(fd) => Reading::Known(Self { descriptor: unsafe { OwnedFd::from_raw_fd(fd as i32) } }),
            Err(Errno::ESRCH) => Reading::Gone,
            Err(Errno::EPERM | Errno::EACCES) => Reading::Denied,
            Err(_) => Reading::Unsupported,
        }
    }

    /// Readable once the process has ended.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        poll(&mut [PollFd::new(self.fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
    }

    /// How it ended. `Unsupported` while it lives or is unreaped, and where the kernel does not keep it.
    pub fn exit(&self) -> Reading<Exit> {
        let mut info = Info { mask: WANT_EXIT, ..Info::default() };
        // SAFETY: the kernel writes at most the size that is part of the request's number.
        let asked = unsafe { get_info(self.descriptor.as_raw_fd(), &raw mut info) };
        if asked.is_ok() && info.mask & WANT_EXIT != 0 {
            Reading::Known(exit_of(info.exit_code))
        } else {
            Reading::Unsupported
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_end_of_a_process_is_seen_and_its_code_told_where_the_kernel_keeps_it() {
        let mut child =
            Command::new("sh").args(["-c", "read x; exit 7"]).stdin(Stdio::piped()).spawn().unwrap();
        let ending = Ending::of(child.id()).known().unwrap();
        assert!(!ending.is_over());
        assert_eq!(ending.exit(), Reading::Unsupported);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(ending.is_over());
        assert!(matches!(ending.exit(), Reading::Known(Exit::Code(7)) | Reading::Unsupported));
        let kept = crate::host::facts(&crate::Root::live())
            .kernel
            .split('.')
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>();
        if let [major, minor] = kept.as_slice()
            && (major.parse::<u32>().unwrap_or(0), minor.parse::<u32>().unwrap_or(0)) >= (6, 15)
        {
            assert_eq!(ending.exit(), Reading::Known(Exit::Code(7)));
        }
    }

    #[test]
    fn a_pid_nobody_has_is_gone() {
        assert_eq!(Ending::of(4_194_303).map(|_| ()), Reading::Gone);
    }
}
