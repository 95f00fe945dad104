//! Pseudo-terminals and their sizes.

use nix::fcntl::{OFlag, open};
use nix::pty::{Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::stat::Mode;
use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, tcgetattr, tcgetsid, tcsetattr};
use nix::unistd::tcgetpgrp;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Lines kept below the job's output.
pub(crate) const STATUS_ROWS: u16 = 4;
/// A job with fewer lines than this gets the whole screen instead of a status below it.
const FEWEST_JOB_ROWS: u16 = 6;
/// What a terminal that does not know its size is taken for.
const USUAL_SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// Why there is no pseudo-terminal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PtyError {
    /// The system gave none.
    #[error("cannot open a pseudo-terminal")]
    Open(#[source] io::Error),
}

/// A pseudo-terminal (master, slave) as large as the one at `size_from` less `reserve_rows`, with its settings. Both
/// sides close on exec; where `size_from` is no terminal, 80 x 24 is taken.
pub(crate) fn open_pty(size_from: BorrowedFd<'_>, reserve_rows: u16) -> Result<(OwnedFd, OwnedFd), PtyError> {
    let opened = (|| {
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname_r(&master)?;
        let slave = open(path.as_str(), OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC, Mode::empty())?;
        if let Ok(settings) = tcgetattr(size_from) {
            tcsetattr(&slave, SetArg::TCSANOW, &settings)?;
        }
        let master = OwnedFd::from(master);
        set_size(master.as_fd(), job_size(size_of(size_from), reserve_rows))?;
        Ok((master, slave))
    })();
    opened.map_err(|errno: nix::errno::Errno| PtyError::Open(errno.into()))
}

/// What is left for the job of a terminal of this size.
pub(super) fn job_size(size: Winsize, reserve_rows: u16) -> Winsize {
    if size.ws_row < reserve_rows.saturating_add(FEWEST_JOB_ROWS) {
        return size;
    }
    let rows = size.ws_row - reserve_rows;
    let pixels = u32::from(size.ws_ypixel) * u32::from(rows) / u32::from(size.ws_row.max(1));
    Winsize { ws_row: rows, ws_ypixel: pixels as u16, ..size }
}

/// Whether this key suspends the job itself. A job that is a shell and has another job in front suspends that alone,
/// which the terminal's line discipline does.
pub(super) fn suspends(master: BorrowedFd<'_>, key: u8) -> bool {
    let of_job = || tcgetpgrp(master).ok() == tcgetsid(master).ok();
    tcgetattr(master).is_ok_and(|settings| {
        settings.local_flags.contains(LocalFlags::ISIG)
            && settings.control_chars[SpecialCharacterIndices::VSUSP as usize] == key
            && key != 0
    }) && of_job()
}

mod ioctls {
    #![allow(unsafe_code, reason = "the size of a terminal is only had through ioctl")]

    use super::Winsize;
    use nix::libc;
    nix::ioctl_read_bad!(tiocgwinsz, libc::TIOCGWINSZ, Winsize);
    nix::ioctl_write_ptr_bad!(tiocswinsz, libc::TIOCSWINSZ, Winsize);
}

/// The size of a terminal, or the usual one where it does not say.
#[allow(unsafe_code, reason = "the size of a terminal is only had through ioctl")]
pub(super) fn size_of(terminal: BorrowedFd<'_>) -> Winsize {
    let mut size = USUAL_SIZE;
    // SAFETY: the descriptor is open for the call, and the kernel writes one Winsize into a Winsize.
    let answer = unsafe { ioctls::tiocgwinsz(terminal.as_raw_fd(), &raw mut size) };
    if answer.is_ok() && size.ws_row > 0 && size.ws_col > 0 { size } else { USUAL_SIZE }
}

/// Tells a terminal its size; its foreground processes get SIGWINCH when it changed.
#[allow(unsafe_code, reason = "the size of a terminal is only had through ioctl")]
pub(super) fn set_size(terminal: BorrowedFd<'_>, size: Winsize) -> nix::Result<()> {
    // SAFETY: the descriptor is open for the call, and the kernel reads one Winsize from a Winsize.
    unsafe { ioctls::tiocswinsz(terminal.as_raw_fd(), &raw const size) }.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{FcntlArg, FdFlag, fcntl};
    use nix::sys::termios::LocalFlags;

    fn size(rows: u16, columns: u16) -> Winsize {
        Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
    }

    #[test]
    fn the_job_gets_the_size_of_the_terminal_less_the_status() {
        let (user, _user_slave) = open_pty(std::fs::File::open("/dev/null").unwrap().as_fd(), 0).unwrap();
        assert_eq!(size_of(user.as_fd()), USUAL_SIZE);
        set_size(user.as_fd(), size(50, 132)).unwrap();
        let (_master, slave) = open_pty(user.as_fd(), STATUS_ROWS).unwrap();
        assert_eq!(size_of(slave.as_fd()), size(46, 132));
    }

    #[test]
    fn a_terminal_too_low_for_a_status_goes_to_the_job_whole() {
        assert_eq!(job_size(size(9, 80), 4), size(9, 80));
        assert_eq!(job_size(size(10, 80), 4), size(6, 80));
        assert_eq!(job_size(size(0, 0), u16::MAX), size(0, 0));
    }

    #[test]
    fn settings_are_copied_and_both_sides_close_on_exec() {
        let (_user, user_slave) = open_pty(std::fs::File::open("/dev/null").unwrap().as_fd(), 0).unwrap();
        let mut settings = tcgetattr(&user_slave).unwrap();
        settings.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(&user_slave, SetArg::TCSANOW, &settings).unwrap();
        let (master, slave) = open_pty(user_slave.as_fd(), 0).unwrap();
        assert!(!tcgetattr(&slave).unwrap().local_flags.contains(LocalFlags::ECHO));
        for fd in [master, slave] {
            let flags = FdFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFD).unwrap());
            assert!(flags.contains(FdFlag::FD_CLOEXEC));
        }
    }
}
