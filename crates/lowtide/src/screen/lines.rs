//! The view as plain lines, for a pipe, a log file or a terminal that cannot do more.

use super::feed::{Feed, Link};
use super::signals::Signals;
use super::{Ended, ScreenError, words};
use lowtide_model::Tick;
use lowtide_wire::{Answer, Snapshot};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// Without news there is one line in this time.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// However much changes, lines are this far apart: a fork storm must not fill a log.
const CLOSEST: Duration = Duration::from_secs(1);

/// Prints a line whenever there is something to say, until one side ends.
pub(super) fn follow(mut feed: Feed, out: &mut impl Write) -> Result<Ended, ScreenError> {
    let mut gate = Gate::default();
    let mut last: Option<Box<Snapshot>> = None;
    let mut answers = Vec::new();
    let caught = [Signal::SIGINT, Signal::SIGTERM];
    let mut signals = Signals::catch(&caught).map_err(|errno| ScreenError::Follow(errno.into()))?;
    loop {
        wait(&feed, &signals)?;
        if let Some(signal) = signals.next() {
            return Ok(Ended::Signal(signal as i32));
        }
        let link = feed.take(&mut answers).map_err(ScreenError::Follow)?;
        for answer in answers.drain(..) {
            match answer {
                Answer::Snapshot(snapshot) => {
                    if let Err(error) =
                        gate.lines(&snapshot).iter().try_for_each(|line| writeln!(out, "{line}"))
                    {
                        return gone_reader(error);
                    }
                    last = Some(snapshot);
                }
                Answer::Error { text } => return Err(ScreenError::Refused { text }),
                Answer::History { .. } | Answer::Marked | Answer::Scan { .. } | Answer::Squeeze { .. } => {}
            }
        }
        if link == Link::Closed {
            let ended = how_it_ended(last.as_deref());
            return last_state(last.as_deref(), out).map_or_else(gone_reader, |()| Ok(ended));
        }
        if let Err(error) = out.flush() {
            return gone_reader(error);
        }
        if feed.is_over() {
            return Ok(Ended::Left);
        }
    }
}

/// Whether a closed socket means an end or a death.
pub(super) fn how_it_ended(last: Option<&Snapshot>) -> Ended {
    match last {
        Some(snapshot) if !snapshot.running => Ended::RecorderDone,
        Some(_) | None => Ended::RecorderGone,
    }
}

/// Leaves the last state behind.
pub(super) fn last_state(last: Option<&Snapshot>, out: &mut impl Write) -> io::Result<()> {
    if let Some(snapshot) = last {
        writeln!(out, "{}", words::state_line(snapshot))?;
    }
    out.flush()
}

/// `lowtide watch | head` is a way to leave.
fn gone_reader(error: io::Error) -> Result<Ended, ScreenError> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Ok(Ended::Left)
    } else {
        Err(ScreenError::Terminal(error))
    }
}

fn wait(feed: &Feed, signals: &Signals) -> Result<(), ScreenError> {
    let mut fds =
        [PollFd::new(feed.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::NONE) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(errno) => Err(ScreenError::Follow(errno.into())),
    }
}

/// Decides which ticks are worth a line. Goes by the ticks' own time, so a replay says the same.
#[derive(Debug, Default)]
struct Gate {
    printed: Option<Tick>,
    headline: Option<String>,
    warnings: Vec<String>,
    limit: Option<String>,
    processes: usize,
    running: bool,
}

impl Gate {
    fn lines(&mut self, snapshot: &Snapshot) -> Vec<String> {
        let limit = words::tightest(snapshot).map(|limit| words::limit_name(&limit.kind));
        let changed = self.headline != snapshot.headline
            || self.limit != limit
            || self.processes != snapshot.processes.len()
            || self.running != snapshot.running;
        let fresh: Vec<_> = snapshot.warnings.iter().filter(|text| !self.warnings.contains(text)).collect();
        let mut lines: Vec<String> = fresh.iter().map(|text| format!("warning: {text}")).collect();
        self.warnings.clone_from(&snapshot.warnings);
        let since = self.printed.map(|printed| snapshot.tick.since(printed));
        if since.is_none_or(|since| since >= HEARTBEAT || (changed && since >= CLOSEST)) {
            lines.push(words::state_line(snapshot));
            self.printed = Some(snapshot.tick);
            self.headline.clone_from(&snapshot.headline);
            self.limit = limit;
            self.processes = snapshot.processes.len();
            self.running = snapshot.running;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Snapshot {
        Snapshot { tick: Tick::from_seconds(seconds), running: true, ..Snapshot::default() }
    }

    #[test]
    fn a_quiet_job_gives_one_line_in_five_seconds() {
        let mut gate = Gate::default();
        let count = (0..=100).filter(|tenth| !gate.lines(&at(f64::from(*tenth) / 10.0)).is_empty()).count();
        assert_eq!(count, 3);
    }

    #[test]
    fn a_new_headline_does_not_wait() {
        let mut gate = Gate::default();
        gate.lines(&at(0.0));
        let told = Snapshot { headline: Some("leaks 3 MiB a step".to_owned()), ..at(1.5) };
        assert!(gate.lines(&told)[0].ends_with("leaks 3 MiB a step"));
        assert!(gate.lines(&Snapshot { tick: Tick::from_seconds(2.5), ..told }).is_empty());
    }

    #[test]
    fn a_change_just_after_a_line_is_told_a_moment_later() {
        let mut gate = Gate::default();
        gate.lines(&at(0.0));
        let told = |seconds| Snapshot { headline: Some("news".to_owned()), ..at(seconds) };
        assert!(gate.lines(&told(0.5)).is_empty());
        assert_eq!(gate.lines(&told(1.0)).len(), 1);
    }

    #[test]
    fn a_warning_is_said_once() {
        let mut gate = Gate::default();
        gate.lines(&at(0.0));
        let warned = |seconds| Snapshot { warnings: vec!["disk full".to_owned()], ..at(seconds) };
        assert_eq!(gate.lines(&warned(0.1)), ["warning: disk full"]);
        assert!(gate.lines(&warned(0.2)).is_empty());
    }

    #[test]
    fn a_socket_that_closes_while_the_job_runs_is_not_called_an_end() {
        assert_eq!(how_it_ended(Some(&at(1.0))), Ended::RecorderGone);
        assert_eq!(how_it_ended(Some(&Snapshot { running: false, ..at(1.0) })), Ended::RecorderDone);
        assert_eq!(how_it_ended(None), Ended::RecorderGone);
    }
}
