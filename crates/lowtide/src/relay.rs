//! Stands between a job and the user's terminal so that a few lines of status can stay below the job's own output.
//!
//! `lowtide run --screen` (and `--step-pattern` on a terminal, without the status) gives the job a pseudo-terminal and starts this as a process of its own: killing the recorder
//! leaves relay and job running. The job's bytes pass as they are (see `stream` for the three exceptions); the status
//! lives outside the scroll region, below it. Keys go to the pseudo-terminal, whose line discipline turns Ctrl-C into a
//! signal for the job. Not here: starting jobs, recording, the words of the status (see `screen::words`).
//!
//! Ending: the relay ends when nobody holds the job's side any more. Asked to go by SIGTERM it only gives the terminal
//! back and keeps copying, because closing the master would hang up a job that may be saving; a second SIGTERM ends it.

mod pipes;
mod pty;
mod seat;
mod status;
mod steps;
mod stream;

pub(crate) use pipes::{Streams, pass};
pub(crate) use pty::{STATUS_ROWS, open_pty};
pub(crate) use steps::StepPattern;

use crate::screen::feed::{Feed, Link};
use crate::screen::signals::Signals;
use lowtide_wire::{Answer, Snapshot};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid, read, write};
use seat::Seat;
use status::Recorder;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use steps::{Finder, Speaker};
use stream::Stream;

/// How often the status is drawn at most.
const STATUS_EVERY: Duration = Duration::from_secs(1);
/// How soon it is drawn again after the job wiped it.
const REPAIR_AFTER: Duration = Duration::from_millis(50);
/// A job that saved the cursor and has not fetched it back is waited for this long, since we use the same slot.
const SAVED_CURSOR_PATIENCE: Duration = Duration::from_secs(2);
/// A socket that is not there yet is tried again this often, and for this long.
const CONNECT_EVERY: Duration = Duration::from_millis(250);
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// The longest sleep: how late we notice that the shell took the terminal back.
const NAP: Duration = Duration::from_millis(500);
/// Typed bytes kept while the job does not read.
const MOST_TYPED: usize = 64 * 1024;
const CHUNK_BYTES: usize = 16 * 1024;
/// What the line discipline turns into SIGINT and SIGQUIT.
const CTRL_C: u8 = 0x03;
const CTRL_BACKSLASH: u8 = 0x1c;

/// Why the relay could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RelayError {
    /// The job's pseudo-terminal.
    #[error("cannot use the job's pseudo-terminal")]
    Master(#[source] io::Error),
    /// The user's terminal.
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
    /// Signals.
    #[error("cannot catch signals")]
    Signals(#[source] io::Error),
}

/// What a relay does besides copying.
#[derive(Debug)]
pub(crate) struct Task {
    /// Lines kept for the status; none where there is none.
    pub(crate) rows: u16,
    /// Steps to be found.
    pub(crate) pattern: Option<StepPattern>,
}

/// Copies between the user's terminal (stdin, stdout) and the job's until the job's side is closed. Only a terminal is
/// read from stdin: a pipe belongs to the job itself and is given to it directly.
pub(crate) fn relay(master: OwnedFd, socket: &Path, task: Task) -> Result<(), RelayError> {
    let signals = Signals::catch(&caught()).map_err(|errno| RelayError::Signals(errno.into()))?;
    let flags = fcntl(&master, FcntlArg::F_GETFL).map_err(of_master)?;
    let nonblocking = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
    fcntl(&master, FcntlArg::F_SETFL(nonblocking)).map_err(of_master)?;
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let seat = Seat::new(stdin.as_fd(), stdout.as_fd(), task.rows);
    let mut relay = Relay::new(master, socket, signals, seat);
    relay.steps = task.pattern.map(|pattern| (Finder::new(pattern), Speaker::new(socket.to_owned())));
    relay.sit_down()?;
    let ended = relay.run();
    relay.finish();
    ended
}

fn of_master(errno: Errno) -> RelayError {
    RelayError::Master(errno.into())
}

/// The signals we answer. SIGHUP only when nobody (nohup) asked for it to be ignored. SIGTTIN and SIGTTOU are among them
/// so that they never stop us: a stopped relay would stop the job's output.
fn caught() -> Vec<Signal> {
    let mut signals = vec![
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGWINCH,
        Signal::SIGTSTP,
        Signal::SIGCONT,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
    ];
    if !hangup_is_ignored() {
        signals.push(Signal::SIGHUP);
    }
    signals
}

/// Reads the kernel's word on it: the bit of signal n is n - 1.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (Signal::SIGHUP as u32 - 1) != 0
}

/// Stops us, the recorder and through it the job, as Ctrl-Z without us would. Where no shell waits to wake us up again
/// the kernel would not stop anybody, and neither do we.
fn suspend_everybody() {
    let above = getppid();
    let has_shell = |below: Pid| {
        let above = lowtide_probe::stat_of(&lowtide_probe::Root::live(), below.as_raw() as u32).known();
        let above = above.map(|stat| Pid::from_raw(stat.ppid as i32));
        above.is_some_and(|above| {
            getsid(Some(above)) == getsid(None) && getpgid(Some(above)).is_ok_and(|group| group != getpgrp())
        })
    };
    if has_shell(above) || has_shell(getpgrp()) {
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
    }
}

/// Whether the relay goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    End,
}

struct Relay<'a> {
    master: OwnedFd,
    socket: &'a Path,
    signals: Signals,
    seat: Seat<'a>,
    stream: Stream,
    typed: VecDeque<u8>,
    recorder: Recorder,
    feed: Option<Feed>,
    snapshot: Option<Box<Snapshot>>,
    born: Instant,
    tried: Option<Instant>,
    drawn: Option<Instant>,
    stale: bool,
    told_to_go: bool,
    steps: Option<(Finder, Speaker)>,
}

impl<'a> Relay<'a> {
    fn new(master: OwnedFd, socket: &'a Path, signals: Signals, seat: Seat<'a>) -> Self {
        Self {
            master,
            socket,
            signals,
            seat,
            stream: Stream::default(),
            typed: VecDeque::new(),
            recorder: Recorder::Awaited,
            feed: None,
            snapshot: None,
            born: Instant::now(),
            tried: None,
            drawn: None,
            stale: true,
            told_to_go: false,
            steps: None,
        }
    }

    fn run(&mut self) -> Result<(), RelayError> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            self.connect();
            self.wait()?;
            while let Some(signal) = self.signals.next() {
                if self.signal(signal)? == Flow::End {
                    return Ok(());
                }
            }
            self.follow();
            self.steps.iter_mut().for_each(|(_, speaker)| speaker.flush());
            self.check_front()?;
            self.take_keys(&mut chunk);
            self.pass_keys()?;
            if self.pass_output(&mut chunk)? == Flow::End {
                return Ok(());
            }
            self.draw()?;
        }
    }

    /// Takes the terminal, if it is one and ours to take, and tells the job its size.
    fn sit_down(&mut self) -> Result<(), RelayError> {
        if self.told_to_go || !self.seat.in_front() {
            return Ok(());
        }
        if let Some(size) = self.seat.take().map_err(RelayError::Terminal)? {
            self.stream.set_rows(self.seat.job_rows());
            pty::set_size(self.master.as_fd(), size).map_err(of_master)?;
            self.stale = true;
            self.drawn = None;
        }
        Ok(())
    }

    fn wait(&self) -> Result<(), RelayError> {
        let mut wanted = PollFlags::POLLIN;
        if !self.typed.is_empty() {
            wanted |= PollFlags::POLLOUT;
        }
        let mut fds = vec![
            PollFd::new(self.master.as_fd(), wanted),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.feed.as_ref().map(|feed| PollFd::new(feed.as_fd(), PollFlags::POLLIN)));
        if self.reads_keys() {
            fds.push(PollFd::new(self.seat.keys(), PollFlags::POLLIN));
        }
        let nap = self.due().map_or(NAP, |due| due.saturating_duration_since(Instant::now())).min(NAP);
        // Rounded up: a wait of 0.4 ms must not become a busy loop.
        let timeout = PollTimeout::try_from(nap + Duration::from_millis(1)).unwrap_or(PollTimeout::ZERO);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(of_master(errno)),
        }
    }

    fn signal(&mut self, signal: Signal) -> Result<Flow, RelayError> {
        if signal == Signal::SIGHUP || (signal == Signal::SIGTERM && self.told_to_go) {
            return Ok(Flow::End);
        } else if signal == Signal::SIGTERM {
            self.told_to_go = true;
            self.seat.leave();
        } else if signal == Signal::SIGWINCH || signal == Signal::SIGCONT {
            self.sit_down()?;
        } else if signal == Signal::SIGTSTP {
            self.seat.leave();
            raise(Signal::SIGSTOP).map_err(|errno| RelayError::Signals(errno.into()))?;
            self.sit_down()?;
        } else if self.recorder.is_over() {
            // A living recorder forwards these itself; the job must see each of them once.
            let key = [(Signal::SIGINT, CTRL_C), (Signal::SIGQUIT, CTRL_BACKSLASH)];
            self.typed.extend(key.iter().filter(|(of, _)| *of == signal).map(|(_, key)| *key));
        }
        Ok(Flow::On)
    }

    fn connect(&mut self) {
        if self.recorder != Recorder::Awaited || self.feed.is_some() {
            return;
        }
        if self.tried.is_none_or(|tried| tried.elapsed() >= CONNECT_EVERY) {
            self.tried = Some(Instant::now());
            self.feed = Feed::connect(self.socket).ok();
        }
        if self.feed.is_none() && self.born.elapsed() > CONNECT_PATIENCE {
            self.recorder = Recorder::Gone;
            self.stale = true;
        }
    }

    fn follow(&mut self) {
        let Some(feed) = &mut self.feed else { return };
        let mut answers = Vec::new();
        let link = feed.take(&mut answers).unwrap_or(Link::Closed);
        for answer in answers {
            if let Answer::Snapshot(snapshot) = answer {
                self.snapshot = Some(snapshot);
                self.recorder = Recorder::There;
                self.stale = true;
            }
        }
        if link == Link::Closed {
            let ended = self.snapshot.as_ref().is_some_and(|snapshot| !snapshot.running);
            self.recorder = if ended { Recorder::Ended } else { Recorder::Gone };
            self.feed = None;
            self.stale = true;
            self.drawn = None;
        }
    }

    /// A killed recorder makes the shell take the terminal back: then we only print, as any background job.
    fn check_front(&mut self) -> Result<(), RelayError> {
        match (self.seat.is_taken(), self.seat.in_front()) {
            (true, false) => {
                self.seat.leave();
                if self.recorder.is_over() {
                    self.print(status::farewell(std::process::id()).as_bytes())?;
                }
            }
            (false, true) => self.sit_down()?,
            (true, true) | (false, false) => {}
        }
        Ok(())
    }

    fn reads_keys(&self) -> bool {
        self.seat.has_keys() && !self.told_to_go && self.typed.len() < MOST_TYPED
    }

    fn take_keys(&mut self, chunk: &mut [u8]) {
        if !self.reads_keys() || !self.seat.key_waits() {
            return;
        }
        match read(self.seat.keys(), chunk) {
            Ok(0) => self.seat.lose_keys(),
            Ok(count) => {
                for key in chunk.get(..count).unwrap_or_default() {
                    if pty::suspends(self.master.as_fd(), *key) {
                        suspend_everybody();
                    } else {
                        self.typed.push_back(*key);
                    }
                }
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => self.seat.lose_keys(),
        }
    }

    fn pass_keys(&mut self) -> Result<(), RelayError> {
        while !self.typed.is_empty() {
            let (front, _) = self.typed.as_slices();
            match write(&self.master, front) {
                Ok(count) => drop(self.typed.drain(..count)),
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                // The job is gone; reading the rest of its output tells so.
                Err(Errno::EIO) => self.typed.clear(),
                Err(errno) => return Err(of_master(errno)),
            }
        }
        Ok(())
    }

    fn pass_output(&mut self, chunk: &mut [u8]) -> Result<Flow, RelayError> {
        let count = match read(&self.master, chunk) {
            Ok(0) | Err(Errno::EIO) => return Ok(Flow::End),
            Ok(count) => count,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(Flow::On),
            Err(errno) => return Err(of_master(errno)),
        };
        let arrived = chunk.get(..count).unwrap_or_default();
        if let Some((finder, speaker)) = &mut self.steps {
            finder.take(arrived).into_iter().for_each(|step| speaker.tell(step));
        }
        if self.seat.shows_status() {
            let passed = self.stream.pass(arrived);
            self.print(&passed)
        } else {
            let mut held = self.stream.give_up();
            held.extend_from_slice(arrived);
            self.print(&held)
        }
    }

    /// Where nobody looks any more, the job's output is dropped under nohup and is the end otherwise.
    fn print(&mut self, bytes: &[u8]) -> Result<Flow, RelayError> {
        match self.seat.print(bytes) {
            Ok(()) => Ok(Flow::On),
            Err(Errno::EIO | Errno::EPIPE) if hangup_is_ignored() => Ok(Flow::On),
            Err(Errno::EIO | Errno::EPIPE) => Ok(Flow::End),
            Err(errno) => Err(RelayError::Terminal(errno.into())),
        }
    }

    /// When the status should be drawn next, if it should.
    fn due(&self) -> Option<Instant> {
        if !self.seat.shows_status() {
            return None;
        }
        let drawn = self.drawn.unwrap_or(self.born);
        let wait = match (self.drawn, self.stream.wiped(), self.stale) {
            (None, _, _) => Duration::ZERO,
            (Some(_), true, _) => REPAIR_AFTER,
            (Some(_), false, true) => STATUS_EVERY,
            (Some(_), false, false) => return None,
        };
        let patience = if self.stream.holds_saved_cursor() { SAVED_CURSOR_PATIENCE } else { Duration::ZERO };
        Some(drawn + wait.max(patience))
    }

    fn draw(&mut self) -> Result<(), RelayError> {
        let now = Instant::now();
        if !self.stream.is_between_sequences() || self.due().is_none_or(|due| due > now) {
            return Ok(());
        }
        let block = status::block(self.snapshot.as_deref(), self.recorder, self.seat.columns());
        let bytes = status::draw(&block, self.seat.job_rows(), self.stream.origin_mode());
        self.drawn = Some(now);
        self.stale = false;
        self.stream.forget_wipe();
        self.print(&bytes).map(|_| ())
    }

    /// The last bytes, then the terminal as we found it.
    fn finish(&mut self) {
        let rest = self.stream.give_up();
        let _ = self.seat.print(&rest);
        self.seat.leave();
        if let Some((mut finder, mut speaker)) = self.steps.take() {
            finder.end().into_iter().for_each(|step| speaker.tell(step));
            speaker.finish();
        }
    }
}
