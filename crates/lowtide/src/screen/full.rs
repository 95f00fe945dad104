//! The full screen: owns the terminal while it is shown and gives it back on every way out.

use super::feed::{Feed, Link};
use super::lines::{how_it_ended, last_state};
use super::signals::Signals;
use super::view::{Next, Palette, View};
use super::{Ended, ScreenError, draw};
use lowtide_wire::Answer;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};
use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// The longest the screen sleeps: a resize that slips in between two looks waits no longer than this.
const NAP: u16 = 250;

/// Shows the job until the user leaves, the recorder ends or a signal comes.
pub(super) fn follow(feed: Feed) -> Result<Ended, ScreenError> {
    let mut view = View::new(Palette::from_env());
    let ended = {
        let mut terminal = Seat::take()?;
        Loop { feed, signals: Seat::catch()?, answers: Vec::new() }.run(&mut terminal, &mut view)?
    };
    last_state(view.snapshot.as_deref(), &mut io::stdout().lock()).map_err(ScreenError::Terminal)?;
    Ok(ended)
}

/// The terminal, ours until this is dropped. A panic gives it back before its message is printed.
struct Seat {
    terminal: DefaultTerminal,
}

impl Seat {
    fn take() -> Result<Self, ScreenError> {
        ratatui::try_init().map(|terminal| Self { terminal }).map_err(|error| {
            give_back();
            ScreenError::Terminal(error)
        })
    }

    fn catch() -> Result<Signals, ScreenError> {
        Signals::catch(&[Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT])
            .map_err(|errno| ScreenError::Terminal(errno.into()))
    }

    /// Stops as Ctrl-Z would have, and comes back.
    fn suspend(&mut self) -> io::Result<()> {
        give_back();
        raise(Signal::SIGSTOP)?;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        self.terminal.clear()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        give_back();
    }
}

/// Nothing is left to be done about a terminal that cannot be given back.
fn give_back() {
    let _ = ratatui::try_restore();
    let _ = execute!(io::stdout(), Show);
    let _ = io::stdout().flush();
}

struct Loop {
    feed: Feed,
    signals: Signals,
    answers: Vec<Answer>,
}

impl Loop {
    fn run(&mut self, seat: &mut Seat, view: &mut View) -> Result<Ended, ScreenError> {
        let mut stale = true;
        loop {
            if stale {
                seat.terminal.draw(|frame| draw::draw(frame, view)).map_err(ScreenError::Terminal)?;
            }
            if self.wait()? == Keyboard::Gone {
                return Ok(Ended::Signal(Signal::SIGHUP as i32));
            }
            if let Some(signal) = self.signals.next() {
                return Ok(Ended::Signal(signal as i32));
            }
            let link = self.feed.take(&mut self.answers).map_err(ScreenError::Follow)?;
            stale = !self.answers.is_empty();
            for answer in self.answers.drain(..) {
                view.take(answer).map_err(|text| ScreenError::Refused { text })?;
            }
            if link == Link::Closed {
                return Ok(how_it_ended(view.snapshot.as_deref()));
            }
            if self.feed.is_over() {
                return Ok(Ended::Left);
            }
            match keys(view, &mut stale).map_err(ScreenError::Terminal)? {
                Next::Stay => {}
                Next::Leave => return Ok(Ended::Left),
                Next::Suspend => {
                    seat.suspend().map_err(ScreenError::Terminal)?;
                    stale = true;
                }
            }
        }
    }

    /// Sleeps until something may have happened.
    fn wait(&self) -> Result<Keyboard, ScreenError> {
        let stdin = io::stdin();
        let mut fds = vec![
            PollFd::new(self.feed.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        if stdin.is_terminal() {
            fds.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, PollTimeout::from(NAP)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(ScreenError::Terminal(errno.into())),
        }
        let hung_up = |fd: &PollFd<'_>| {
            fd.revents().is_some_and(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
        };
        Ok(if fds.get(2).is_some_and(hung_up) { Keyboard::Gone } else { Keyboard::There })
    }
}

/// Whether the user's terminal still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyboard {
    There,
    Gone,
}

/// Takes every key and resize that waits.
fn keys(view: &mut View, stale: &mut bool) -> io::Result<Next> {
    while event::poll(Duration::ZERO)? {
        *stale = true;
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            match view.key(key) {
                Next::Stay => {}
                next @ (Next::Leave | Next::Suspend) => return Ok(next),
            }
        }
    }
    Ok(Next::Stay)
}
