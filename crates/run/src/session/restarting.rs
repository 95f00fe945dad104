//! One life of a guarded job has ended: what it left, whether it begins again, and the next start.
//!
//! All lives are one recording. A life begins again only from a complete checkpoint that is further than the one before,
//! so a loop that gets nowhere ends and says so.

use super::{FAREWELL, Session, Subject};
use crate::checkpoints::{Restart, STEP_VARIABLE};
use crate::guard::{Again, Asked, Because, Kept, Stop, Watch};
use crate::judging::is_of_a_gpu;
use lowtide_model::{Event, EventKind, Exit, ProcKey};
use lowtide_probe::clock::boot_ns;
use lowtide_probe::host;
use lowtide_verdict::{Group, Kind};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::time::Duration;

/// What is left of a life that was stopped gets this long to end by itself after its command has.
const LEFT_OVERS: Duration = Duration::from_secs(5);

/// A disk with less free than this part of it is full for who has a checkpoint to write.
const FULL_PART: f64 = 0.02;

impl Session<'_> {
    /// A first life that begins from a checkpoint goes on with another run: noted, so that lives can be told as one program.
    pub(super) fn tell_beginning(&mut self) {
        let Some(from) = self.watch.as_ref().and_then(|watch| watch.life.from.clone()) else { return };
        let data = serde_json::json!({"guard": "begun", "from": from}).to_string();
        let text = format!("began from {}", from.words());
        let event = self.make_event(EventKind::Guard, Some(self.live.root), text);
        self.push_event(Event { data: Some(data), ..event });
    }

    /// Whether the job, which has ended, was started again.
    pub(super) fn begins_again(&mut self) -> bool {
        if self.watch.is_none() {
            return false;
        }
        // The guard hears what the job says last: where it saved.
        self.settle_down(FAREWELL);
        let Some(mut watch) = self.watch.take() else { return false };
        let exit = self.live.exit.unwrap_or(Exit::Unknown);
        if let Some(asked) = watch.asked.take() {
            watch.asked = Some(self.last_answers(asked));
        }
        let again = self.after_life(&mut watch, exit);
        self.watch = Some(watch);
        again
    }

    /// Waits for the processes of this life to end, and for what they said last.
    fn settle_down(&mut self, patience: Duration) {
        let until = boot_ns() + patience.as_nanos() as u64;
        loop {
            self.live.now = self.crew.tick_of(boot_ns());
            self.reap();
            self.drain(boot_ns());
            self.answer();
            let others = self.crew.members().any(|member| member.facts.key != self.live.root);
            if !others && self.live.deaths.is_empty() || boot_ns() > until {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.bury_root();
        self.take_signals();
    }

    fn last_answers(&mut self, mut asked: Asked) -> Asked {
        let number = asked.request.number;
        let answers: Vec<(u64, u64)> = asked.processes.iter().map(|key| self.marks.answered(*key)).collect();
        if asked.has_flag() {
            let now = Some(self.live.now);
            let taken = answers.iter().all(|(taken, _)| *taken >= number);
            let done = answers.iter().any(|(_, done)| *done >= number);
            asked.taken = asked.taken.or(now.filter(|_| taken));
            asked.done = asked.done.or(now.filter(|_| done));
        }
        asked
    }

    fn after_life(&mut self, watch: &mut Watch, exit: Exit) -> bool {
        let kernel = self.live.ooms.len() > watch.life.ooms_before;
        let by_us = watch.stopped_it(exit);
        let leaves = self.live.asked_to_end.is_some();
        // Ended by a signal of the user's: that is what it ends with. Stopped before it came: it can begin again.
        if !(by_us || kernel) || (leaves && exit != Exit::Code(0)) {
            return false;
        }
        let asked = watch.asked.take();
        let kept = what_is_kept(watch, asked.as_ref());
        let again = self.what_again_does(watch, asked.as_ref());
        let over = why_over(watch, asked.as_ref(), kept.as_ref());
        let mut stop = Stop { again, ..self.stop_facts(watch, asked.as_ref(), kept.clone()) };
        let started = match (over, &kept) {
            (None, Some(kept)) => self.start_again(watch, kept),
            (over, _) => Err(over.unwrap_or_else(|| "nothing was kept".to_owned())),
        };
        stop.began_again = started.is_ok();
        stop.over_because = started.err();
        if !stop.began_again {
            watch.report.resumable = kept.filter(|_| by_us);
            watch.report.again = again;
        }
        self.tell_stop(&stop);
        watch.report.stops.push(stop);
        started_again(watch)
    }

    /// What another start would do, by all that is known now that this life has ended.
    fn what_again_does(&self, watch: &Watch, asked: Option<&Asked>) -> Again {
        if asked.is_some_and(|asked| matches!(asked.because, Because::Chunk)) {
            return Again::Helps;
        }
        if watch.life.filled_at_once() {
            return Again::Refills;
        }
        // A leak draws the curve of a cache until the data comes again, also where it never will.
        let verdict = self.judging.now();
        let of_memory = !is_of_a_gpu(&verdict);
        let fills_on = of_memory && verdict.verdict == Kind::CacheFill && verdict.settled_at.is_none();
        let stands = fills_on || verdict.in_first_pass;
        let ruled_out = of_memory && verdict.group == Group::Leak;
        if !ruled_out && (stands || watch.is_in_first_pass()) { Again::MayRefill } else { Again::Helps }
    }

    fn stop_facts(&self, watch: &Watch, asked: Option<&Asked>, kept: Option<Kept>) -> Stop {
        let after = |tick: Option<lowtide_model::Tick>| {
            let asked = asked?;
            Some(tick?.since(asked.at).as_secs_f64())
        };
        Stop {
            because: asked
                .map_or_else(|| "the kernel killed it for memory".to_owned(), |asked| asked.because.words()),
            rung: asked.map(|asked| asked.rung),
            asked_seconds: asked.map(|asked| asked.at.seconds()),
            taken_up_after_seconds: after(asked.and_then(|asked| asked.taken)),
            overdue_after_seconds: after(asked.and_then(|asked| asked.overdue)),
            saved_after_seconds: after(asked.and_then(|asked| asked.done)),
            ended_after_seconds: after(Some(self.live.now)),
            step: watch.life.newest_step,
            save_failed: watch.places.failed_save().map(|(path, error)| failed_words(path, error)),
            kept,
            again: Again::Helps,
            began_again: false,
            over_because: None,
            repeated_steps: None,
        }
    }

    fn tell_stop(&mut self, stop: &Stop) {
        let kept = stop
            .kept
            .as_ref()
            .map_or_else(|| "nothing was kept".to_owned(), |kept| format!("kept: {}", kept.words()));
        let failed = stop.save_failed.as_ref().map(|why| format!("{why}; ")).unwrap_or_default();
        let kept = format!("{failed}{kept}");
        let text = match &stop.over_because {
            None if stop.again == Again::MayRefill => format!(
                "stopped, {kept}; it begins again: that helps if it leaks; if what grows is a cache of the data, it fills \
                 up again and needs more memory"
            ),
            None => format!("stopped, {kept}; it begins again"),
            Some(why) => format!("stopped, {kept}; it does not begin again: {why}"),
        };
        let mut data = serde_json::to_value(stop).unwrap_or_default();
        data["guard"] = "stopped".into();
        let event = self.make_event(EventKind::Guard, None, text.clone());
        self.push_event(Event { data: Some(data.to_string()), ..event });
        self.listener.say(&text);
        self.show(text);
    }

    fn start_again(&mut self, watch: &mut Watch, kept: &Kept) -> Result<(), String> {
        self.end_left_overs();
        if self.live.asked_to_end.is_some() {
            return Err("it was asked to end".to_owned());
        }
        let way = &watch.options.way;
        let Restart { argv, mut variables } = way.command(&watch.job.argv, kept.path.as_deref());
        variables.extend(kept.step.map(|step| (STEP_VARIABLE, format!("{step:.0}").into())));
        let child = watch.start(&argv, &variables).map_err(|error| error.to_string())?;
        let pid = child.id();
        drop(child);
        self.tree.adopt_root(pid);
        let key = self.tree.living().find(|key| key.pid == pid);
        self.live.root = key.unwrap_or(ProcKey { pid, start_ticks: 0 });
        self.live.exit = None;
        if let Subject::Job(forwarder) = &mut self.subject {
            forwarder.job = Pid::from_raw(pid as i32);
        }
        self.live.now = self.crew.tick_of(boot_ns());
        self.live.next_tick_ns = 0;
        watch.born(self.live.now, kept.clone(), self.live.ooms.len());
        watch.report.restarts += 1;
        let text =
            format!("life {} began as process {pid}, from {}", watch.report.restarts + 1, kept.words());
        let data = serde_json::json!({"guard": "life", "number": watch.report.restarts + 1, "from": kept})
            .to_string();
        let event = self.make_event(EventKind::Guard, Some(self.live.root), text);
        self.push_event(Event { data: Some(data), ..event });
        Ok(())
    }

    /// What outlives the command of a life that was stopped would hold its memory beside the next.
    fn end_left_overs(&mut self) {
        let left = |session: &Self| -> Vec<u32> {
            let others = session.crew.members().map(|member| member.facts.key);
            others.filter(|key| *key != session.live.root).map(|key| key.pid).collect()
        };
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let pids = left(self);
            if pids.is_empty() {
                return;
            }
            self.event(
                EventKind::Guard,
                None,
                format!("{signal} to {} processes the job left behind", pids.len()),
            );
            for pid in pids {
                let _ = kill(Pid::from_raw(pid as i32), signal);
            }
            self.settle_down(LEFT_OVERS);
        }
    }
}

fn started_again(watch: &Watch) -> bool {
    watch.report.stops.last().is_some_and(|stop| stop.began_again)
}

/// `its save state-40.pt failed (OSError): the disk of /out is full, 0 B of 4.00 MiB are free`.
fn failed_words(path: &Path, error: &str) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(path);
    let failed = format!("its save {name} failed ({error})");
    let Some(space) = host::space(folder).known() else { return failed };
    let full = space.available.as_f64() <= space.total.as_f64() * FULL_PART;
    let is = if full { "is full: " } else { "has room: " };
    format!("{failed}; the disk of {} {is}{} of {} are free", folder.display(), space.available, space.total)
}

/// The newest complete checkpoint, or what the job says that it saved.
fn what_is_kept(watch: &Watch, asked: Option<&Asked>) -> Option<Kept> {
    let found = Kept::newest(&watch.places);
    let says_saved = asked.is_some_and(|asked| asked.done.is_some());
    let newest_step = watch.life.newest_step;
    match found {
        Some(kept) => {
            let fresh =
                asked.is_some_and(|asked| kept.modified.is_some_and(|modified| modified >= asked.at_wall));
            let step = kept.step.or(newest_step.filter(|_| says_saved && fresh));
            Some(Kept { step, ..kept })
        }
        None => says_saved.then(|| Kept { step: newest_step, ..Kept::default() }),
    }
}

/// Why a job that was stopped does not begin again; nothing when it does.
fn why_over(watch: &Watch, asked: Option<&Asked>, kept: Option<&Kept>) -> Option<String> {
    let Some(kept) = kept else {
        return Some("nothing was kept that it could begin from".to_owned());
    };
    let chunk = asked.is_some_and(|asked| matches!(asked.because, Because::Chunk));
    if let Some(before) = &watch.life.from
        && !kept.is_further_than(before)
    {
        return Some(format!("it got no further than {}, from where it began", before.words()));
    }
    if !chunk && watch.life.filled_at_once() {
        let steps = |count: Option<f64>| count.map_or(0.0, f64::round);
        return Some(format!(
            "memory was full again after {} steps, where it once took {}: what fills it comes back with every start (a \
             cache that does not fit), so starting again does not help",
            steps(watch.life.made()),
            steps(watch.life.before_made)
        ));
    }
    let resumes = watch.options.resumes;
    let counted =
        watch.report.stops.iter().filter(|stop| stop.began_again && stop.because != Because::Chunk.words());
    if !chunk && counted.count() >= resumes as usize {
        return Some(match resumes {
            0 => "--resume was not given".to_owned(),
            1 => "it was started again once, as often as --resume allows".to_owned(),
            times => format!("it was started again {times} times, as often as --resume allows"),
        });
    }
    None
}
