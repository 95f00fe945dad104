//! One job's life under the recorder: the loop that waits, looks, and writes down.
//!
//! One thread does it all but writing to disk, which has a thread of its own in `store`: a hung disk never delays a
//! sample or a signal. Waiting is one `epoll_wait`; a quiet machine wakes us once a tick.

mod bringing;
mod farewell;
mod guarding;
mod marking;
mod overdue;
mod restarting;
mod scanning;
mod squeezing;
mod waiting;
mod warnings;
mod ways;

use crate::anchor::{Anchors, View, Why};
use crate::census::Censuses;
use crate::crew::Crew;
use crate::gpu::GpuHelper;
use crate::guard::{Guarded, Watch};
use crate::history::History;
use crate::hooks::{HookWhen, Hooks};
use crate::judging::Judging;
use crate::marks::Marks;
use crate::oom::{OomCall, OomWatch};
use crate::pace::{Gait, Pace};
use crate::places::Places;
use crate::reaped::Reaped;
use crate::signals::{Forwarder, Signals};
use crate::socket::ControlSocket;
use crate::{Listener, Options, RunError};
use lowtide_model::{Bytes, Event, EventKind, Exit, MarkKind, Meta, ProcKey, Tick};
use lowtide_probe::Ending;
use lowtide_probe::clock::{boot_ns, own_cpu_ns};
use lowtide_probe::events::Feed;
use lowtide_probe::tree::{Change, Tree};
use lowtide_store::{Entry, Kind, StoreError, Writer};
use nix::sys::epoll::{Epoll, EpollCreateFlags};
pub(crate) use scanning::Scans;
pub(crate) use squeezing::Squeeze;
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

/// Task events are drained at most this often: a fork storm costs wake-ups, not a core.
const DRAIN_EVERY_NS: u64 = 50_000_000;
/// No tick for this much longer than planned is a gap: suspend, overload, or we were stopped.
const GAP_NS: u64 = 2_000_000_000;
/// With ticks up to this long, what is notable goes to disk with the next tick, so that the tick is announced with it.
const FLUSH_WITH_TICK: Duration = Duration::from_secs(1);
/// A death whose exit nobody told waits this long for the kernel's word.
const EXIT_PATIENCE_NS: u64 = 300_000_000;
/// The listener (terminal title) is told this often.
const TELL_EVERY: Duration = Duration::from_secs(2);
/// When the command has ended, its helpers get this long to go too before they are called survivors.
const FAREWELL: Duration = Duration::from_millis(500);
/// A warning when less than this part of a limit is left.
const TIGHT_PART: f64 = 0.1;
/// With less than this part of a limit left, every row goes to disk at once.
const NEAR_PART: f64 = 0.25;
/// The newest warnings, for screens.
const WARNINGS_KEPT: usize = 8;

/// What a session is about.
pub(crate) enum Subject {
    /// A command we started.
    Job(Forwarder),
    /// A process that already ran, and where the kernel tells how it ended.
    Stranger(Option<Ending>),
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) recording: Result<PathBuf, StoreError>,
    pub(crate) survivors: Vec<(ProcKey, String)>,
    pub(crate) ooms: Vec<OomCall>,
    pub(crate) guarded: Option<Guarded>,
}

/// Everything the loop holds.
pub(crate) struct Session<'a> {
    pub(crate) options: &'a Options,
    pub(crate) listener: &'a mut dyn Listener,
    pub(crate) subject: Subject,
    pub(crate) signals: Signals,
    pub(crate) tree: Tree,
    pub(crate) feed: Feed,
    pub(crate) crew: Crew,
    pub(crate) places: Places,
    pub(crate) writer: Writer,
    pub(crate) meta: Meta,
    pub(crate) socket: Option<ControlSocket>,
    pub(crate) gpu: Option<GpuHelper>,
    pub(crate) hooks: Hooks,
    pub(crate) pace: Pace,
    pub(crate) judging: Judging,
    pub(crate) marks: Marks,
    pub(crate) scans: Scans,
    pub(crate) watch: Option<Box<Watch>>,
    pub(crate) squeeze: Option<Squeeze>,
    pub(crate) censuses: Censuses,
    pub(crate) live: Live,
}

/// Things said at most once in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Once {
    Tight,
    Store,
    Refusal,
    Agent,
}

/// What changes from tick to tick.
pub(crate) struct Live {
    pub(crate) root: ProcKey,
    pub(crate) exit: Option<Exit>,
    pub(crate) stop: bool,
    /// When somebody asked the job to end: a guard does not start it again.
    asked_to_end: Option<Tick>,
    pub(crate) now: Tick,
    pub(crate) tick_number: u64,
    pub(crate) interval: Duration,
    pub(crate) history: History,
    pub(crate) warnings: VecDeque<String>,
    anchors: Anchors,
    reaped: Reaped,
    oom: OomWatch,
    ooms: Vec<OomCall>,
    gait: Option<Gait>,
    next_tick_ns: u64,
    /// When the guard looks next, between two ticks.
    next_look_ns: u64,
    next_drain_ns: u64,
    feed_armed: bool,
    told: Option<Tick>,
    /// What was said and is not said again.
    said: BTreeSet<Once>,
    /// Processes that were asked to load the agent, and when.
    asked: Option<(Tick, Vec<ProcKey>)>,
    /// Deaths whose exit is not known yet, and until when to wait for it.
    deaths: Vec<(Change, u64)>,
    /// Something was written that should be on disk soon.
    notable: bool,
    cpu_before_ns: u64,
    entries: Vec<Entry>,
}

impl Live {
    pub(crate) fn new(root: ProcKey, interval: Duration) -> Self {
        Self {
            root,
            exit: None,
            stop: false,
            asked_to_end: None,
            now: Tick::START,
            tick_number: 0,
            interval,
            history: History::default(),
            warnings: VecDeque::new(),
            anchors: Anchors::new(),
            reaped: Reaped::default(),
            oom: OomWatch::default(),
            ooms: Vec::new(),
            gait: None,
            next_tick_ns: 0,
            next_look_ns: 0,
            next_drain_ns: 0,
            feed_armed: false,
            told: None,
            said: BTreeSet::new(),
            asked: None,
            deaths: Vec::new(),
            notable: false,
            cpu_before_ns: own_cpu_ns(),
            entries: Vec::new(),
        }
    }

    /// CPU time we took since the session began: what ran in this process before its exec is not ours.
    pub(crate) fn own_cpu_ns(&self) -> u64 {
        own_cpu_ns().saturating_sub(self.cpu_before_ns)
    }

    pub(crate) fn stall(&self) -> Duration {
        self.anchors.total()
    }
}

impl Session<'_> {
    /// Says where the recording goes when that is not where it was asked for.
    fn say_where(&mut self) {
        if let Kind::Snapshot { every } = self.writer.health().kind {
            let (path, seconds) = (self.writer.path().display().to_string(), every.as_secs());
            self.warn(format!(
                "the file system of {path} can't be written in place: recording on local scratch, copied there every \
                 {seconds} s and at the end"
            ));
        }
    }

    /// Runs until the command ends, the watched process ends, or we are asked to leave.
    pub(crate) fn live(mut self) -> Result<Ended, RunError> {
        let waiting = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(RunError::Wait)?;
        self.register(&waiting).map_err(RunError::Wait)?;
        self.say_where();
        self.tell_beginning();
        while !self.is_over() {
            let now = boot_ns();
            if now >= self.live.next_tick_ns {
                self.tick(now);
                self.set_wake(&waiting);
                continue;
            }
            if self.watch.is_some() && now >= self.live.next_look_ns {
                self.glance(now);
                continue;
            }
            self.arm_feed(&waiting, now);
            self.wait(&waiting, now).map_err(RunError::Wait)?;
        }
        Ok(self.end())
    }

    fn is_over(&mut self) -> bool {
        self.live.stop || (self.live.exit.is_some() && !self.begins_again())
    }

    /// Learns who came and went.
    fn drain(&mut self, now: u64) {
        self.live.next_drain_ns = now + DRAIN_EVERY_NS;
        let changes = self.tree.update(&mut self.feed, now);
        if changes.iter().any(|change| matches!(change, Change::Died { .. })) {
            // Who is told dead can be waited for, and then more is known of it.
            self.reap();
        }
        let changes = self.with_exits(changes, now);
        self.take_changes(changes);
    }

    /// A source that does not tell how a process ended is often quicker than the kernel's word to its parent, which
    /// may be us: such a death waits a moment for it.
    fn with_exits(&mut self, changes: Vec<Change>, now: u64) -> Vec<Change> {
        let waiting = std::mem::take(&mut self.live.deaths);
        let fresh = changes.into_iter().map(|change| (change, now + EXIT_PATIENCE_NS));
        let mut ready = Vec::new();
        for (change, until) in waiting.into_iter().chain(fresh) {
            let unknown = match change {
                Change::Died { key, exit: None, .. } => !self.live.reaped.has(key.pid),
                Change::Died { .. } | Change::Born { .. } | Change::Execed { .. } => false,
            };
            if unknown && now < until {
                self.live.deaths.push((change, until));
            } else {
                ready.push(change);
            }
        }
        ready
    }

    fn take_changes(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let mut entries = std::mem::take(&mut self.live.entries);
        for change in changes {
            let change = self.with_kernels_word(change);
            let death = match change {
                Change::Died { key, .. } => Some(key),
                Change::Born { .. } | Change::Execed { .. } => None,
            };
            if let Some(key) = death {
                self.last_marks(key, &mut entries);
            }
            self.crew.apply(change, &mut self.live.reaped, &mut entries);
            if let (Some(key), Some(Entry::Process(process))) = (death, entries.last())
                && process.key == key
            {
                let exit = process.exit.unwrap_or(Exit::Unknown);
                self.look_for_oom(key, exit);
                if key == self.live.root && matches!(self.subject, Subject::Stranger(_)) {
                    self.live.exit = Some(exit);
                }
            }
        }
        self.places.settle(self.live.now, &self.crew, &mut entries);
        self.write(entries);
    }

    /// How a stranger ended is known to the kernel alone, and only to those who asked in time.
    fn with_kernels_word(&self, change: Change) -> Change {
        match (change, &self.subject) {
            (Change::Died { key, at_boot_ns, exit: None }, Subject::Stranger(Some(ending)))
                if key == self.live.root =>
            {
                Change::Died { key, at_boot_ns, exit: ending.exit().known() }
            }
            (change, _) => change,
        }
    }

    fn look_for_oom(&mut self, key: ProcKey, exit: Exit) {
        if exit != Exit::Signal(9) {
            return;
        }
        self.live.oom.look(self.live.now, self.places.counters_now());
        if let Some(call) = self.live.oom.call(key, exit) {
            let data = serde_json::to_string(&call).ok();
            self.push_event(Event { data, ..self.make_event(EventKind::Oom, Some(key), call.text.clone()) });
            self.warn(call.text.clone());
            self.live.ooms.push(call);
        }
    }

    fn write(&mut self, mut entries: Vec<Entry>) {
        let notable = entries.iter().any(|entry| matches!(entry, Entry::Process(_) | Entry::Event(_)));
        for entry in entries.drain(..) {
            self.judging.take(&entry);
            if matches!(&entry, Entry::Mark(mark) if mark.kind == MarkKind::Step) {
                self.scans.stepped();
            }
            if let Some(watch) = &mut self.watch {
                watch.take(&entry);
            }
            self.writer.push(entry);
        }
        self.live.notable |= notable;
        if notable && self.live.interval > FLUSH_WITH_TICK {
            self.writer.flush_soon();
        }
        self.live.entries = entries;
    }

    /// Looks at everything once.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        let before = self.live.now;
        self.live.now = self.crew.tick_of(now_ns);
        self.note_gap(before);
        self.drain(now_ns);
        let mut entries = std::mem::take(&mut self.live.entries);
        self.read_marks(&mut entries);
        self.sample(&mut entries);
        self.read_sharing(&mut entries);
        self.places.read(self.live.now, &self.crew, &mut entries);
        self.write(entries);
        self.live.oom.look(self.live.now, self.places.counters());
        self.writer.announce(self.live.now);
        // The first minute, and the last before a limit, are what a sudden death leaves behind.
        let precious = self.live.gait == Some(Gait::Eager) || self.near_a_limit(NEAR_PART);
        if std::mem::take(&mut self.live.notable) || precious {
            self.writer.flush_soon();
        }
        self.live.tick_number += 1;
        let total = self.total();
        self.live.history.push(self.live.now, total);
        self.warn_when_tight();
        self.warn_of_the_store();
        self.say_who_has_the_agent();
        self.judge();
        self.guard();
        self.scan_when_it_grows();
        self.tell();
        self.set_pace(now_ns, total);
        self.live.stop |=
            self.options.length.is_some_and(|length| self.live.now.since(Tick::START) >= length);
    }

    /// Reads every process. One that became another program may have been moved first, by systemd say: its limits are looked
    /// for anew.
    fn sample(&mut self, entries: &mut Vec<Entry>) {
        if self.crew.sample(self.live.now, entries) > 0 {
            self.places.settle(self.live.now, &self.crew, entries);
        }
    }

    fn note_gap(&mut self, before: Tick) {
        let planned = self.live.interval.as_nanos() as u64;
        let passed = self.live.now.0.saturating_sub(before.0);
        if self.live.tick_number > 0 && passed > planned + GAP_NS {
            let seconds = passed as f64 / 1e9;
            let data = serde_json::json!({"from_ns": before.0, "to_ns": self.live.now.0}).to_string();
            let text = format!("no samples for {seconds:.1} s: suspended, stopped or overloaded");
            self.push_event(Event { data: Some(data), ..self.make_event(EventKind::Gap, None, text) });
        }
    }

    fn read_sharing(&mut self, entries: &mut Vec<Entry>) {
        let view = View {
            now: self.live.now,
            rss_sum: self.crew.total().now().rss_sum,
            members: self.crew.fingerprint(),
            unsharing: self.crew.unsharing(),
        };
        let Some(why) = self.live.anchors.due(view) else {
            self.note_refusal();
            return;
        };
        self.make_round(view, why, entries);
    }

    fn make_round(&mut self, view: View, why: Why, entries: &mut Vec<Entry>) {
        let sharing = self.crew.read_sharing(self.live.now, self.live.anchors.left(), entries);
        self.live.anchors.made(view, sharing.held, sharing.complete);
        for one in sharing.unshared {
            let text = format!(
                "process {} copied {} of memory it shared with its parent",
                one.process.pid, one.bytes
            );
            let data = serde_json::json!({"bytes": one.bytes, "seen": format!("{why:?}").to_lowercase()})
                .to_string();
            self.push_event(Event {
                data: Some(data),
                ..self.make_event(EventKind::Unsharing, Some(one.process), text)
            });
        }
    }

    fn note_refusal(&mut self) {
        if self.live.anchors.refused() && self.live.said.insert(Once::Refusal) {
            let text = "sharing is not read: it would hold the job's memory map for longer than 50 ms a minute, so the \
                        tree's total has a wider band";
            self.event(EventKind::Note, None, text.to_owned());
        }
    }

    /// Memory of the tree, shared pages counted once.
    pub(crate) fn total(&self) -> Bytes {
        self.places.own_charge().unwrap_or_else(|| self.crew.total().now().bytes)
    }

    /// Asks the judge, and says what cannot wait.
    fn judge(&mut self) {
        let news = self.judging.ask(self.live.now);
        for verdict in news.forecast.into_iter().chain(news.gpu) {
            self.warn(verdict.headline.clone());
            self.fire(HookWhen::Forecast, &verdict);
        }
        if let Some(verdict) = news.verdict {
            self.fire(HookWhen::Verdict, &verdict);
        }
    }

    fn fire(&mut self, when: HookWhen, facts: &impl serde::Serialize) {
        let troubles = self.hooks.fire(when, facts);
        troubles.into_iter().for_each(|trouble| self.warn(trouble));
        self.hooks.pids().for_each(|pid| self.tree.ignore(pid));
    }

    fn tell(&mut self) {
        let followed = self.socket.as_ref().is_some_and(ControlSocket::followed);
        let due = self.live.told.is_none_or(|told| self.live.now.since(told) >= TELL_EVERY)
            && self.listener.wants_ticks();
        if !followed && !due {
            return;
        }
        let snapshot = self.snapshot();
        if due {
            self.live.told = Some(self.live.now);
            self.listener.tick(&snapshot);
        }
        if let Some(socket) = &mut self.socket {
            socket.publish(&snapshot);
        }
    }

    fn set_pace(&mut self, now_ns: u64, total: Bytes) {
        let (interval, gait) = self.pace.next(self.live.now.since(Tick::START), total.as_f64());
        if self.live.gait != Some(gait) {
            self.live.gait = Some(gait);
            let data = serde_json::json!({"interval_ns": interval.as_nanos() as u64, "why": gait.word()})
                .to_string();
            let text = format!("a tick is now {} ms: {}", interval.as_millis(), gait.word());
            self.push_event(Event { data: Some(data), ..self.make_event(EventKind::Interval, None, text) });
        }
        self.live.interval = interval;
        // From the plan, not from now, so that ticks don't drift; but never a burst to catch up.
        let planned = self.live.next_tick_ns + interval.as_nanos() as u64;
        self.live.next_tick_ns = if planned > now_ns { planned } else { now_ns + interval.as_nanos() as u64 };
    }

    fn make_event(&self, kind: EventKind, process: Option<ProcKey>, text: String) -> Event {
        Event { tick: self.live.now, kind, process, text, data: None }
    }

    fn push_event(&self, event: Event) {
        self.writer.push(Entry::Event(event));
    }

    fn event(&self, kind: EventKind, process: Option<ProcKey>, text: String) {
        self.push_event(self.make_event(kind, process, text));
    }
}
