//! What wakes the recorder between ticks: signals, task events, the control socket, helpers, marks.
//!
//! Not here: what a tick does (see `session`).

use super::{Session, Subject};
use crate::hooks::HookWhen;
use crate::reaped::reap_one;
use crate::signals::Passed;
use lowtide_model::EventKind;
use lowtide_probe::clock::boot_ns;
use lowtide_store::Entry;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::Signal;
use std::os::fd::AsFd;

const FROM_SIGNALS: u64 = 0;
const FROM_FEED: u64 = 1;
const FROM_SOCKET: u64 = 2;
const FROM_GPU: u64 = 3;
const FROM_MARKS: u64 = 4;
const FROM_SCAN: u64 = 5;
pub(super) const FROM_WAKE: u64 = 6;

impl Session<'_> {
    pub(super) fn register(&self, waiting: &Epoll) -> nix::Result<()> {
        let readable = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        waiting.add(&self.signals, readable(FROM_SIGNALS))?;
        if let Some(feed) = self.feed.fd() {
            waiting.add(feed, EpollEvent::new(EpollFlags::empty(), FROM_FEED))?;
        }
        if let Some(socket) = &self.socket {
            waiting.add(socket, readable(FROM_SOCKET))?;
        }
        if let Some(gpu) = &self.gpu {
            waiting.add(gpu, readable(FROM_GPU))?;
        }
        if let Some(notices) = self.marks.notices() {
            waiting.add(notices, readable(FROM_MARKS))?;
        }
        if let Some(scans) = &self.scans.any {
            waiting.add(&scans.0, readable(FROM_SCAN))?;
        }
        Ok(())
    }

    /// The feed wakes us once; then it is left alone until the next drain is due.
    pub(super) fn arm_feed(&mut self, waiting: &Epoll, now: u64) {
        if self.live.feed_armed || now < self.live.next_drain_ns {
            return;
        }
        if let Some(feed) = self.feed.fd() {
            let mut once = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLONESHOT, FROM_FEED);
            self.live.feed_armed = waiting.modify(feed, &mut once).is_ok();
        } else {
            self.drain(now);
        }
    }

    pub(super) fn wait(&mut self, waiting: &Epoll, now: u64) -> nix::Result<()> {
        let mut until = self.live.next_tick_ns;
        if self.watch.is_some() {
            until = until.min(self.live.next_look_ns);
        }
        if !self.live.feed_armed && self.live.next_drain_ns > now && self.feed.fd().is_some() {
            until = until.min(self.live.next_drain_ns);
        }
        let milliseconds = until.saturating_sub(now).div_ceil(1_000_000).min(60_000);
        let mut events = [EpollEvent::empty(); 7];
        let timeout = EpollTimeout::try_from(milliseconds as i32).unwrap_or(EpollTimeout::ZERO);
        let ready = match waiting.wait(&mut events, timeout) {
            Ok(ready) => ready,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(error) => return Err(error),
        };
        for event in &events[..ready] {
            match event.data() {
                FROM_SIGNALS => self.take_signals(),
                FROM_FEED => {
                    self.live.feed_armed = false;
                    self.drain(boot_ns());
                }
                FROM_SOCKET => self.answer(),
                FROM_MARKS => self.marks.hear(self.live.now),
                FROM_SCAN => self.hear_scan(),
                FROM_WAKE => self.woken(),
                _ => self.hear_gpu(waiting),
            }
        }
        Ok(())
    }

    fn hear_gpu(&mut self, waiting: &Epoll) {
        let Some(gpu) = &mut self.gpu else { return };
        let crew = &self.crew;
        let rows = gpu.hear(self.live.now, |pid| crew.by_pid(pid).map(|member| member.facts.key));
        if gpu.silent() {
            let _ = waiting.delete(gpu.as_fd());
            self.gpu = None;
        }
        self.write(rows.into_iter().map(Entry::Gpu).collect());
    }

    pub(super) fn take_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match (signal, &mut self.subject) {
                (Signal::SIGCHLD, _) => self.reap(),
                (signal, Subject::Job(forwarder)) => {
                    let passed = forwarder.pass_on(signal);
                    self.passed_on(signal, passed);
                }
                (
                    Signal::SIGCONT | Signal::SIGUSR1 | Signal::SIGUSR2 | Signal::SIGTSTP,
                    Subject::Stranger(_),
                ) => {}
                (_, Subject::Stranger(_)) => self.live.stop = true,
            }
        }
    }

    fn passed_on(&mut self, signal: Signal, passed: Passed) {
        let how = match passed {
            Passed::ByUs => "passed on to the job",
            Passed::BySender => "sent to the job as well, so not passed on",
            Passed::Nobody => "not passed on: the job is gone",
        };
        self.event(EventKind::Signal, None, format!("{signal} came and was {how}"));
        let asks_to_stop =
            matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT);
        if asks_to_stop {
            self.live.asked_to_end = Some(self.live.now);
            let facts = serde_json::json!({"event": "stop", "signal": signal.as_str(), "run_id": self.meta.run_id,
                "name": self.meta.name, "recording": self.writer.path().to_string_lossy()});
            self.fire(HookWhen::Stop, &facts);
        }
        self.writer.flush_soon();
        if signal == Signal::SIGTSTP {
            // The job is stopped or will be; our caller expects us to stop with it, and wakes us with SIGCONT.
            let _ = nix::sys::signal::raise(Signal::SIGSTOP);
        }
    }

    /// Collects every child that ended: the job, orphans that came to us, helpers of our own.
    pub(super) fn reap(&mut self) {
        while let Some((pid, reap)) = reap_one() {
            self.live.reaped.put(pid, reap);
            if pid == self.live.root.pid && matches!(self.subject, Subject::Job(_)) {
                self.live.exit = Some(reap.exit);
            }
        }
        self.hooks.reap();
    }
}
