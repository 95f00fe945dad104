//! The guard in the course of a session: looks at every tick, asks when it is time, follows up, and climbs the ladder.
//!
//! A flag that the job looks at after each step, then a signal, then the end: the next rung only when the one before has
//! no effect and memory runs out, and the end only where the kernel would kill instead.

use super::Session;
use super::waiting::FROM_WAKE;
use super::ways::ADVICE;
use crate::guard::{Asked, Because, Rung, Telling, Wake, Watch, steps_ahead};
use crate::judging::is_of_a_gpu;
use crate::marks::{Request, Stopper};
use crate::signals::catches;
use lowtide_model::{Event, EventKind, ProcKey, Tick};
use lowtide_probe::clock::boot_ns;
use lowtide_verdict::{Fits, Group};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::{Duration, SystemTime};

/// A verdict that bounds growth counts from this confidence on.
const SURE: f64 = 0.8;
/// The verdict is asked when a request may be so near ...
const JUDGED_WITHIN: Duration = Duration::from_secs(30);
/// ... at most this often ...
const LEAST_JUDGED: Duration = Duration::from_secs(1);
/// ... and may take this part of the time.
const JUDGED_SHARE: u32 = 20;
/// A job with a framework that makes steps may load for so long before it counts as one that never makes any.
const GETTING_READY: Duration = Duration::from_secs(120);

impl Session<'_> {
    /// A look between two ticks: what the job says and how much of each limit is taken, and nothing else, so that it can be
    /// taken every few milliseconds.
    pub(super) fn glance(&mut self, now_ns: u64) {
        self.live.now = self.crew.tick_of(now_ns);
        let mut entries = std::mem::take(&mut self.live.entries);
        self.read_marks(&mut entries);
        if self.places.counts_processes() {
            self.sample(&mut entries);
        }
        self.places.glance(&self.crew);
        self.write(entries);
        self.guard();
    }

    /// Has the kernel wake us on the way to a limit, where it can; anew when the limit or the job changes.
    pub(super) fn set_wake(&mut self, waiting: &Epoll) {
        let Some(watch) = &mut self.watch else { return };
        let Some((folder, used, limit)) = self.places.folder_v1() else { return };
        if watch.wake.as_ref().is_some_and(|wake| wake.limit() == limit.0) {
            return;
        }
        // Closing the one before takes it out of what is waited for.
        watch.wake = Wake::set(&folder, used.0, limit.0).ok();
        let wakes = |wake: &Wake| waiting.add(wake, EpollEvent::new(EpollFlags::EPOLLIN, FROM_WAKE)).is_ok();
        watch.wake.take_if(|wake| !wakes(wake));
    }

    /// The charge passed a mark: the guard looks at once.
    pub(super) fn woken(&mut self) {
        let passed = self.watch.as_ref().and_then(|watch| watch.wake.as_ref()).is_some_and(Wake::passed);
        if passed {
            self.live.next_look_ns = 0;
        }
    }

    /// One look of the guard.
    pub(super) fn guard(&mut self) {
        let Some(mut watch) = self.watch.take() else { return };
        let several = self.marks.stoppers().any(|stopper| stopper.several);
        let stop_steps = watch.manner.stop_steps(several, watch.step_seconds());
        watch.look(self.live.now, &self.places, stop_steps);
        self.tell_ways(&mut watch);
        self.tell_repeated(&mut watch);
        match watch.asked.take() {
            Some(mut asked) => {
                self.ask_again_when_missed(&mut watch, &mut asked);
                self.tell_lost(&mut watch, &asked);
                watch.asked = Some(self.follow_up(&watch, asked));
            }
            None => self.consider(&mut watch),
        }
        self.live.next_look_ns = boot_ns() + watch.next_look().as_nanos() as u64;
        self.watch = Some(watch);
    }

    /// Whether the job only gets ready to make steps. What it takes for that is no growth, and a life that is ended
    /// before its first step has gained nothing.
    fn gets_ready(&self, watch: &Watch) -> bool {
        let stepped_before = watch.life.before.is_some() || watch.manner.marks_steps();
        let may_step = self.marks.hooked() && self.live.now.since(watch.life.began) < GETTING_READY;
        watch.life.first_step.is_none() && (stepped_before || may_step)
    }

    /// Ranks that heard of the step only when they were past it are named a later one.
    fn ask_again_when_missed(&mut self, watch: &mut Watch, asked: &mut Asked) {
        let Request { number, stop_at } = asked.request;
        let stoppers: Vec<Stopper> =
            self.marks.stoppers().filter(|stopper| asked.processes.contains(&stopper.key)).collect();
        let missed = stoppers.iter().any(|stopper| stopper.missed == number);
        if asked.rung == Rung::Flag && asked.done.is_none() && missed {
            self.ask_by_flag(watch, asked, &stoppers);
            let later = asked.request.stop_at;
            let text = format!("a rank was past step {stop_at}: all stop after step {later}");
            self.guard_event("asked_again", asked, text);
        }
    }

    fn consider(&mut self, watch: &mut Watch) {
        if self.gets_ready(watch) {
            return;
        }
        self.hear_the_verdict(watch);
        match watch.runs_out() {
            Some(because) => self.ask(watch, because),
            None if watch.chunk_done(self.live.now) => self.ask(watch, Because::Chunk),
            None => self.tell_evaluation(watch),
        }
        // Whoever can be asked is asked, late as it may be: a step that should not fit may, and then it saves.
        let at_the_edge = watch.at_the_edge() && (watch.rushes() || !self.can_be_asked(watch));
        if watch.asked.is_none() && at_the_edge && watch.has_something() {
            let asked = self.new_request(watch.runs_out().unwrap_or(Because::Rush), Rung::Kill);
            self.end_it(watch, asked);
        } else if watch.asked.is_none() && watch.save_runs_over() && watch.has_something() {
            self.end_it(watch, self.new_request(Because::Save, Rung::Hung));
        }
    }

    /// Whether somebody looks at requests, or saves on a signal.
    fn can_be_asked(&self, watch: &Watch) -> bool {
        let (here, ranks) = self.marks.ranks_that_stop();
        let by_flag = here >= ranks && self.marks.stoppers().next().is_some();
        let by_signal = |signal: Signal| self.signalled(signal).next().is_some();
        by_flag || watch.stop_signal().is_some_and(by_signal)
    }

    /// Whether the whole course shows that growth ends within the limit. Asked while there is time for it: it may take longer than a step.
    fn hear_the_verdict(&mut self, watch: &mut Watch) {
        let Some(left) = watch.time_left() else { return };
        if self.live.now < watch.judged_again || left > JUDGED_WITHIN || left < watch.judging_takes * 4 {
            return;
        }
        let before = boot_ns();
        let verdict = self.judging.now();
        watch.judging_takes = Duration::from_nanos(boot_ns().saturating_sub(before));
        let pause = LEAST_JUDGED.max(watch.judging_takes * JUDGED_SHARE);
        watch.judged_again = Tick(self.live.now.0.saturating_add(Tick::from(pause).0));
        let outcome = &verdict.outcome;
        if is_of_a_gpu(&verdict) {
            return;
        }
        let fits = matches!(outcome.is, Fits::Fits | Fits::Tight) && verdict.group == Group::Bounded;
        let room = outcome.limit_bytes.zip(outcome.needs_bytes).map(|(limit, needs)| limit - needs);
        let room = room.filter(|_| fits && verdict.confidence >= SURE);
        watch.set_room_left(self.places.limits(), room);
    }

    fn ask(&mut self, watch: &mut Watch, because: Because) {
        let stoppers: Vec<Stopper> = self.marks.stoppers().collect();
        let mut asked = self.new_request(because, Rung::Flag);
        if self.ask_by_flag(watch, &mut asked, &stoppers) {
            let text = format!("asked to save and stop: {}", because.words());
            self.guard_event("asked", &asked, text.clone());
            self.listener.warn(&text);
            self.show(text);
            watch.asked = Some(asked);
        } else if let Some(signal) = watch.stop_signal() {
            self.signal(watch, asked, signal);
        } else if watch.is_lost() && self.signalled(Signal::SIGTERM).next().is_some() {
            // A handler need not save, but the kernel's kill is less than a step away.
            self.signal(watch, asked, Signal::SIGTERM);
        } else if watch.tells(Telling::Helpless) {
            self.warn(format!("nobody can be asked to save: {}; {ADVICE}", because.words()));
        }
    }

    fn new_request(&self, because: Because, rung: Rung) -> Asked {
        let request = Request { number: 0, stop_at: 0 };
        let (at, at_wall) = (self.live.now, SystemTime::now());
        Asked {
            at,
            at_wall,
            because,
            rung,
            request,
            processes: Vec::new(),
            taken: None,
            done: None,
            overdue: None,
            told_overdue: Duration::ZERO,
            spared: false,
            by_step: None,
        }
    }

    /// Writes the request into every page; false where there is none to write to.
    fn ask_by_flag(&mut self, watch: &mut Watch, asked: &mut Asked, stoppers: &[Stopper]) -> bool {
        let (here, ranks) = self.marks.ranks_that_stop();
        if here < ranks {
            return false;
        }
        watch.number = self.marks.next_number().max(watch.number + 1);
        let several = stoppers.iter().any(|stopper| stopper.several);
        let newest = stoppers.iter().map(|stopper| stopper.steps).max().unwrap_or(0);
        let together = newest + steps_ahead(watch.step_seconds());
        let request = Request { number: watch.number, stop_at: if several { together } else { 0 } };
        let steps = if several { together - newest } else { 1 };
        asked.by_step = Some(newest as f64 + watch.manner.stop_steps(false, None).max(steps as f64));
        let reached = |stopper: &&Stopper| self.marks.ask(stopper.key, request).is_ok();
        asked.processes = stoppers.iter().filter(reached).map(|stopper| stopper.key).collect();
        if asked.processes.is_empty() {
            return false;
        }
        asked.request = request;
        true
    }

    /// Who gets a signal: those who mark steps and catch it, never a launcher above them.
    fn signalled(&self, signal: Signal) -> impl Iterator<Item = ProcKey> {
        let mut steppers = self.marks.steppers().peekable();
        let root = Some(self.live.root).filter(|_| steppers.peek().is_none());
        steppers.chain(root).filter(move |key| catches(key.pid, signal))
    }

    /// Sends a signal; where nobody catches it, it would only be a kill.
    fn signal(&mut self, watch: &mut Watch, mut asked: Asked, signal: Signal) {
        if self.send(signal, &mut asked) {
            self.tell_signal(signal, &asked);
            watch.asked = Some(asked);
        } else if watch.tells(Telling::Helpless) {
            self.warn(format!("nobody catches {signal}, so it is not sent: {}", asked.because.words()));
        }
    }

    /// Sends a signal to those who catch it; false where nobody does.
    pub(super) fn send(&self, signal: Signal, asked: &mut Asked) -> bool {
        let targets: Vec<ProcKey> = self.signalled(signal).collect();
        for key in &targets {
            let _ = kill(Pid::from_raw(key.pid as i32), signal);
        }
        if targets.is_empty() {
            return false;
        }
        asked.rung = Rung::Signal;
        if !asked.has_flag() {
            asked.processes = targets;
        }
        true
    }

    pub(super) fn tell_signal(&mut self, signal: Signal, asked: &Asked) {
        let text = format!("sent {signal} to save and stop: {}", asked.because.words());
        self.guard_event("signalled", asked, text.clone());
        self.listener.warn(&text);
        self.show(text);
    }

    /// What became of a request.
    fn follow_up(&mut self, watch: &Watch, mut asked: Asked) -> Asked {
        let number = asked.request.number;
        let answers: Vec<(u64, u64)> = asked.processes.iter().map(|key| self.marks.answered(*key)).collect();
        if asked.has_flag() && asked.taken.is_none() && answers.iter().all(|(taken, _)| *taken >= number) {
            asked.taken = Some(self.live.now);
            self.guard_event("taken_up", &asked, "the request was taken up".to_owned());
        }
        if asked.has_flag() && asked.done.is_none() && answers.iter().any(|(_, done)| *done >= number) {
            asked.done = Some(self.live.now);
            self.guard_event("saved", &asked, "the job says that it has saved".to_owned());
        }
        self.chase(watch, &mut asked);
        let overdue = asked.is_overdue(watch, self.live.now);
        // While it saves, killing it would only take what the save may still give.
        let busy = asked.taken.is_some() || asked.rung == Rung::Signal;
        // Before the step is over at which it looks, what that step will take is no reason: the save may still fit.
        let pending = asked.by_step.zip(watch.life.newest_step).is_some_and(|(by, step)| step <= by);
        let edge = if pending && !overdue { watch.rushes() } else { watch.at_the_edge() };
        if !asked.is_over() && edge && (!busy || overdue) && watch.has_something() {
            self.end_all(&mut asked, Rung::Kill);
        } else if !asked.is_over() && asked.is_hung(watch, self.live.now) && watch.has_something() {
            self.end_all(&mut asked, Rung::Hung);
        }
        asked
    }

    fn end_it(&mut self, watch: &mut Watch, mut asked: Asked) {
        let rung = asked.rung;
        self.end_all(&mut asked, rung);
        watch.asked = Some(asked);
    }

    /// The last rung: every process of the job, at once, before the kernel picks one, or when its time is over.
    pub(super) fn end_all(&mut self, asked: &mut Asked, rung: Rung) {
        asked.rung = rung;
        asked.processes = self.crew.members().map(|member| member.facts.key).collect();
        for key in &asked.processes {
            let _ = kill(Pid::from_raw(key.pid as i32), Signal::SIGKILL);
        }
        let why = match rung {
            Rung::Overdue => "ended because it did not stop within --stop-within",
            Rung::Hung => "ended in a save that took more and more memory, before the kernel does it",
            Rung::Kill | Rung::Signal | Rung::Flag => "ended before the kernel does it",
        };
        let text = format!("{why}: {}", asked.because.words());
        self.guard_event("killed", asked, text.clone());
        self.listener.warn(&text);
        self.show(text);
    }

    /// A step that takes more than was known when it was asked to be the last one, told before the kernel ends it.
    fn tell_lost(&mut self, watch: &mut Watch, asked: &Asked) {
        let known = asked.taken.is_some() || matches!(asked.because, Because::TooLate(_));
        let same_step = asked.by_step.zip(watch.life.newest_step).is_some_and(|(by, step)| step < by);
        let lost = watch.runs_out().filter(|because| matches!(because, Because::TooLate(_)));
        let Some(because) = lost.filter(|_| same_step && !known) else { return };
        if watch.tells(Telling::Lost) {
            let text = because.words();
            self.guard_event("may_be_lost", asked, text.clone());
            self.listener.warn(&text);
            self.show(text);
        }
    }

    /// An evaluation that will not fit is told as soon as it is known.
    fn tell_evaluation(&mut self, watch: &mut Watch) {
        let Some((step, takes)) = watch.evaluation_exceeds() else {
            return;
        };
        if !watch.tells(Telling::Evaluation) {
            return;
        }
        let takes = lowtide_model::Bytes::from_f64(takes);
        self.warn(format!(
            "the evaluation at step {step:.0} will not fit: the last one took {takes} beside training"
        ));
    }

    /// The first step of a new life tells how many are made once more.
    fn tell_repeated(&mut self, watch: &mut Watch) {
        let (Some(first), Some(before)) = (watch.life.first_step, watch.life.before) else { return };
        let Some(stop) = watch.report.stops.last_mut().filter(|stop| stop.began_again) else { return };
        if stop.repeated_steps.is_none() {
            // The first step that is seen may be a later one than the first that was made.
            let from = stop.kept.as_ref().and_then(|kept| kept.step).unwrap_or(first - 1.0);
            let repeated = (before - from).max(0.0);
            stop.repeated_steps = Some(repeated);
            let text = format!("went on at step {first:.0}: {repeated:.0} steps are made once more");
            let data = serde_json::json!({"guard": "went_on", "step": first, "repeated_steps": repeated})
                .to_string();
            self.push_event(Event { data: Some(data), ..self.make_event(EventKind::Guard, None, text) });
        }
    }

    pub(super) fn guard_event(&mut self, what: &str, asked: &Asked, text: String) {
        let mut data = serde_json::json!({"guard": what, "rung": asked.rung, "number": asked.request.number,
            "after_seconds": self.live.now.since(asked.at).as_secs_f64()});
        if let Because::Memory(why) | Because::TooLate(why) = asked.because {
            data["why"] = serde_json::to_value(why).unwrap_or_default();
        }
        let event = self.make_event(EventKind::Guard, None, text);
        self.push_event(Event { data: Some(data.to_string()), ..event });
        self.writer.flush_soon();
    }
}
