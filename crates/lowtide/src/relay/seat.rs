//! The user's terminal: taken into raw mode with a scroll region above the status, and given back whatever happens.

use super::pty;
use super::status;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::Winsize;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp, write};
use std::io::{self, IsTerminal};
use std::os::fd::BorrowedFd;

/// The user's side of the relay. Without a terminal on stdout it only prints.
#[derive(Debug)]
pub(super) struct Seat<'a> {
    stdin: BorrowedFd<'a>,
    stdout: BorrowedFd<'a>,
    keyboard: Keyboard,
    settings: Option<Termios>,
    size: Winsize,
    /// Lines kept for the status below the job's output.
    rows: u16,
    taken: bool,
}

/// Whether keys can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyboard {
    There,
    None,
}

impl<'a> Seat<'a> {
    pub(super) fn new(stdin: BorrowedFd<'a>, stdout: BorrowedFd<'a>, rows: u16) -> Self {
        let keyboard = if stdin.is_terminal() { Keyboard::There } else { Keyboard::None };
        Self { stdin, stdout, keyboard, settings: None, size: pty::size_of(stdout), rows, taken: false }
    }

    /// Takes the terminal, or takes it anew after a resize. Gives the size the job should see; nothing where stdout is
    /// no terminal.
    pub(super) fn take(&mut self) -> io::Result<Option<Winsize>> {
        if !self.stdout.is_terminal() {
            return Ok(None);
        }
        if self.keyboard == Keyboard::There {
            let before = match self.settings.take() {
                Some(before) => before,
                None => tcgetattr(self.stdin)?,
            };
            let mut raw = before.clone();
            self.settings = Some(before);
            cfmakeraw(&mut raw);
            tcsetattr(self.stdin, SetArg::TCSANOW, &raw)?;
        }
        self.taken = true;
        self.size = pty::size_of(self.stdout);
        let bytes = if self.shows_status() {
            status::claim(self.job_rows())
        } else {
            // Too low for a status: the region of an earlier, larger size must not stay.
            status::unbind()
        };
        if self.rows > 0 {
            self.print(&bytes)?;
        }
        Ok(Some(pty::job_size(self.size, self.rows)))
    }

    /// Gives the terminal back: scroll region, status lines, cursor, and settings unless a shell has set its own.
    pub(super) fn leave(&mut self) {
        if !std::mem::replace(&mut self.taken, false) {
            return;
        }
        let rows = pty::job_size(self.size, self.rows).ws_row;
        let bytes = if rows < self.size.ws_row { status::release(rows) } else { status::unbind() };
        if self.rows > 0 {
            let _ = self.print(&bytes);
        }
        if let Some(before) = &self.settings
            && self.in_front()
        {
            let _ = tcsetattr(self.stdin, SetArg::TCSADRAIN, before);
        }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Whether the terminal is ours to use: its foreground group is our own, or it is not our controlling terminal.
    pub(super) fn in_front(&self) -> bool {
        self.stdout.is_terminal() && is_ours(self.stdout)
    }

    pub(super) fn shows_status(&self) -> bool {
        self.taken && self.job_rows() < self.size.ws_row
    }

    /// Lines above the status.
    pub(super) fn job_rows(&self) -> u16 {
        pty::job_size(self.size, self.rows).ws_row
    }

    pub(super) fn columns(&self) -> u16 {
        self.size.ws_col
    }

    pub(super) fn keys(&self) -> BorrowedFd<'a> {
        self.stdin
    }

    /// Whether keys may be read: reading a terminal from the background would stop us.
    pub(super) fn has_keys(&self) -> bool {
        let may_read = self.taken || !self.stdout.is_terminal();
        self.keyboard == Keyboard::There && may_read && is_ours(self.stdin)
    }

    pub(super) fn lose_keys(&mut self) {
        self.keyboard = Keyboard::None;
    }

    pub(super) fn key_waits(&self) -> bool {
        let mut fds = [PollFd::new(self.stdin, PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Prints all of it, waiting for a slow terminal.
    pub(super) fn print(&self, mut bytes: &[u8]) -> nix::Result<()> {
        while !bytes.is_empty() {
            match write(self.stdout, bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    let _ = poll(&mut [PollFd::new(self.stdout, PollFlags::POLLOUT)], PollTimeout::NONE);
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

fn is_ours(terminal: BorrowedFd<'_>) -> bool {
    tcgetpgrp(terminal).map_or(true, |group| group == getpgrp())
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::termios::LocalFlags;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let (_user, terminal) = pty::open_pty(File::open("/dev/null").unwrap().as_fd(), 0).unwrap();
        let cooked =
            |fd: &std::os::fd::OwnedFd| tcgetattr(fd).unwrap().local_flags.contains(LocalFlags::ICANON);
        assert!(cooked(&terminal));
        let crash = catch_unwind(AssertUnwindSafe(|| {
            let mut seat = Seat::new(terminal.as_fd(), terminal.as_fd(), pty::STATUS_ROWS);
            assert_eq!(seat.take().unwrap().unwrap().ws_row, 20);
            assert!(!cooked(&terminal));
            panic!("on purpose");
        }));
        assert_eq!(crash.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
        assert!(cooked(&terminal));
    }
}
