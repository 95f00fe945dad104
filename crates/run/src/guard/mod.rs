//! Keeps a job from being killed for memory: what is watched, what was asked, and what came of it.
//!
//! When to ask is decided by `verdict::Guard`, a pure reckoning; here is one such reckoning for every limit, the state of a
//! request that is under way, and the facts of each stop for the report. Not here: the loop (see `session::guarding`),
//! starting again (see `session::restarting`).

mod kept;
mod manner;
mod report;
mod wake;

use crate::checkpoints::{self, Way};
use crate::job::{self, JobSpec, Restore, StartError};
use crate::marks::Request;
use crate::places::Places;
pub use kept::Kept;
use lowtide_model::{Exit, LimitHeld, LimitKind, Mark, MarkKind, ProcKey, Tick};
use lowtide_store::Entry;
use lowtide_verdict::{Call, Guard, Look, QUICKEST_LOOK, SLOWEST_LOOK, Why};
use manner::Manner;
pub(crate) use manner::steps_ahead;
use nix::sys::signal::Signal;
pub use report::{Again, Guarded, Rung, Stop};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, SystemTime};
pub(crate) use wake::Wake;

/// Limits that are watched; a job of many ranks may have an address space each.
const MOST_LIMITS: usize = 16;
/// A life that makes less than this part of the steps of the longest before it was full again at once.
const AT_ONCE_PART: f64 = 1.0 / 3.0;

/// How a job is guarded.
#[derive(Clone, Debug)]
pub struct GuardOptions {
    /// How often the job is started again.
    pub resumes: u32,
    /// Stop and start again on purpose.
    pub chunk: Option<Chunk>,
    /// A signal on which the job saves and stops.
    pub stop_signal: Option<Signal>,
    /// How long a stop may take before the job is ended; nothing leaves it alone.
    pub stop_within: Option<Duration>,
    /// Where checkpoints lie, beside where the job says it saves.
    pub checkpoints: Vec<PathBuf>,
    /// The checkpoint to begin from.
    pub from: Option<PathBuf>,
    /// How the command takes a checkpoint.
    pub way: Way,
}

/// How much is done between two starts made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// So many steps.
    Steps(u64),
    /// So much time.
    Time(Duration),
}

/// Why a job is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Because {
    /// Memory runs out.
    Memory(Why),
    /// It does, and one more step and a save will hardly fit.
    TooLate(Why),
    /// Memory runs out so fast that nothing can be learnt of it.
    Rush,
    /// A save takes more than any before it, up to the limit.
    Save,
    /// A chunk is done.
    Chunk,
}

impl Because {
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Memory(why) => why.words(),
            Self::TooLate(why) => {
                format!("it may be lost, one more step and a save will hardly fit: {}", why.words())
            }
            Self::Rush => "memory rushes to the limit".to_owned(),
            Self::Save => "a save takes more memory than any before it, up to the limit".to_owned(),
            Self::Chunk => "a chunk is done".to_owned(),
        }
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) at: Tick,
    pub(crate) at_wall: SystemTime,
    pub(crate) because: Because,
    pub(crate) rung: Rung,
    pub(crate) request: Request,
    pub(crate) processes: Vec<ProcKey>,
    pub(crate) taken: Option<Tick>,
    pub(crate) done: Option<Tick>,
    /// When it was first called overdue, and how long after the request that was last said.
    pub(crate) overdue: Option<Tick>,
    pub(crate) told_overdue: Duration,
    /// Its time was over, and there was nothing to go back to.
    pub(crate) spared: bool,
    /// The step after which the request is honoured, if it ever is.
    pub(crate) by_step: Option<f64>,
}

impl Asked {
    /// Whether it was asked by the flag, alone or before a signal.
    pub(crate) fn has_flag(&self) -> bool {
        self.request.number > 0
    }
}

/// What is said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Telling {
    /// By whom the job is stopped in order.
    Ways,
    /// That nobody can be asked, as far as is known.
    NoWay,
    /// That there is none, when one was needed.
    Helpless,
    /// That the next evaluation will not fit.
    Evaluation,
    /// That what was asked for in time will hardly fit any more.
    Lost,
}

/// One limit and what is reckoned of it.
struct Watched {
    guard: Guard,
    /// Whether the kernel kills for it.
    deadly: bool,
}

/// What the guard of a session holds.
pub(crate) struct Watch {
    pub(crate) options: GuardOptions,
    pub(crate) job: JobSpec,
    pub(crate) restore: Restore,
    limits: BTreeMap<String, Watched>,
    pub(crate) asked: Option<Asked>,
    pub(crate) number: u64,
    pub(crate) life: Life,
    /// When the verdict is asked again.
    pub(crate) judged_again: Tick,
    /// How long the verdict took.
    pub(crate) judging_takes: Duration,
    told: BTreeSet<Telling>,
    pub(crate) places: checkpoints::Places,
    pub(crate) manner: Manner,
    /// What wakes it between two looks.
    pub(crate) wake: Option<Wake>,
    pub(crate) report: Guarded,
}

/// One life of the job: from a start to its end.
#[derive(Debug, Default)]
pub(crate) struct Life {
    pub(crate) began: Tick,
    /// What it began from.
    pub(crate) from: Option<Kept>,
    pub(crate) first_step: Option<f64>,
    pub(crate) first_step_at: Option<Tick>,
    pub(crate) newest_step: Option<f64>,
    /// OOM kills before it began.
    pub(crate) ooms_before: usize,
    /// The newest step of the life before.
    pub(crate) before: Option<f64>,
    /// How many steps the longest life before made.
    pub(crate) before_made: Option<f64>,
}

impl Life {
    /// How many steps it made so far.
    pub(crate) fn made(&self) -> Option<f64> {
        let from = self.from.as_ref().and_then(|from| from.step);
        let first = self.first_step? - 1.0;
        Some(self.newest_step? - from.map_or(first, |from| from.min(first)))
    }

    /// Whether memory was full again at once: what fills it came back with the start.
    pub(crate) fn filled_at_once(&self) -> bool {
        let both = self.made().zip(self.before_made);
        both.is_some_and(|(made, before)| made < before * AT_ONCE_PART)
    }
}

impl Watch {
    pub(crate) fn new(options: GuardOptions, job: JobSpec, restore: Restore) -> Self {
        let from = options.from.as_deref().map(Kept::named);
        let mut places = checkpoints::Places::default();
        options.checkpoints.iter().for_each(|folder| places.name(folder));
        Self {
            options,
            job,
            restore,
            limits: BTreeMap::new(),
            asked: None,
            number: 0,
            life: Life { from, ..Life::default() },
            judged_again: Tick::START,
            judging_takes: Duration::from_millis(100),
            told: BTreeSet::new(),
            places,
            manner: Manner::default(),
            wake: None,
            report: Guarded::default(),
        }
    }

    /// Whether this is said for the first time.
    pub(crate) fn tells(&mut self, what: Telling) -> bool {
        self.told.insert(what)
    }

    pub(crate) fn has_told(&self, what: Telling) -> bool {
        self.told.contains(&what)
    }

    /// Takes what goes into the recording.
    pub(crate) fn take(&mut self, entry: &Entry) {
        let Entry::Mark(mark) = entry else { return };
        self.limits.values_mut().for_each(|watched| watched.guard.mark(mark));
        self.take_step(mark);
        self.places.hear(mark);
        self.manner.hear(mark);
    }

    fn take_step(&mut self, mark: &Mark) {
        if mark.kind != MarkKind::Step || !mark.number.is_finite() {
            return;
        }
        self.life.first_step.get_or_insert(mark.number);
        self.life.first_step_at.get_or_insert(mark.tick);
        self.life.newest_step = Some(self.life.newest_step.unwrap_or(0.0).max(mark.number));
    }

    /// Looks at every limit.
    pub(crate) fn look(&mut self, now: Tick, places: &Places, stop_steps: f64) {
        let guarded = places.limits().iter().filter(|held| held.kind != LimitKind::DevShm);
        for held in guarded {
            let name = name_of(&held.kind);
            if !self.limits.contains_key(&name) && self.limits.len() >= MOST_LIMITS {
                continue;
            }
            let watched = self.limits.entry(name).or_insert_with(|| Watched {
                guard: Guard::default(),
                deadly: matches!(held.kind, LimitKind::Cgroup { .. } | LimitKind::Host | LimitKind::Slurm),
            });
            let used = held.used.as_f64();
            watched.guard.set_stop_steps(stop_steps);
            let high = used + places.above(&held.kind).as_f64();
            watched.guard.look(Look { seconds: now.seconds(), used, high, limit: held.limit.as_f64() });
        }
    }

    /// Why the job has to be stopped for memory now, if it has.
    pub(crate) fn runs_out(&self) -> Option<Because> {
        match self.call() {
            Call::Hold => None,
            Call::Ask(why) => Some(Because::Memory(why)),
            Call::Lost(why) => Some(Because::TooLate(why)),
        }
    }

    /// What has to be done, by the limit that is nearest.
    fn call(&self) -> Call {
        let mut worst = Call::Hold;
        for watched in self.limits.values() {
            match (watched.guard.call(), &worst) {
                (Call::Hold, _) | (_, Call::Lost(_)) | (Call::Ask(_), Call::Ask(_)) => {}
                (call, _) => worst = call,
            }
        }
        worst
    }

    /// Whether it is too late for a step and a save, where the kernel kills.
    pub(crate) fn is_lost(&self) -> bool {
        let lost = |watched: &Watched| matches!(watched.guard.call(), Call::Lost(_));
        self.limits.values().any(|watched| watched.deadly && lost(watched))
    }

    /// How long until something has to be done, if it goes on like this.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        let soonest =
            self.limits.values().filter_map(|watched| watched.guard.seconds_left()).reduce(f64::min);
        soonest.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// Tells every reckoning where growth ends, as room that will be left of each limit.
    pub(crate) fn set_room_left(&mut self, held: &[LimitHeld], room: Option<f64>) {
        for held in held {
            if let Some(watched) = self.limits.get_mut(&name_of(&held.kind)) {
                watched.guard.set_bound(room.map(|room| held.limit.as_f64() - room));
            }
        }
    }

    /// Whether the kernel is about to kill.
    pub(crate) fn at_the_edge(&self) -> bool {
        self.limits.values().any(|watched| watched.deadly && watched.guard.at_the_edge())
    }

    /// Whether it is about to kill whatever the job does now.
    pub(crate) fn rushes(&self) -> bool {
        self.limits.values().any(|watched| watched.deadly && watched.guard.rushes())
    }

    /// Whether it is about to kill a job that saves.
    pub(crate) fn reaches_limit_in_save(&self) -> bool {
        self.limits.values().any(|watched| watched.deadly && watched.guard.limit_is_next_in_save())
    }

    /// ... and that save takes more than any before it.
    pub(crate) fn save_runs_over(&self) -> bool {
        let over = |guard: &Guard| guard.limit_is_next_in_save() && guard.save_outgrown();
        self.limits.values().any(|watched| watched.deadly && over(&watched.guard))
    }

    /// An evaluation that will not fit: its step and what it takes.
    pub(crate) fn evaluation_exceeds(&self) -> Option<(f64, f64)> {
        self.limits.values().find_map(|watched| watched.guard.evaluation_exceeds())
    }

    /// A step and a save take about this long, as far as that is known.
    pub(crate) fn step_and_save(&self) -> Option<Duration> {
        let each = self.limits.values().filter_map(|watched| {
            Some(watched.guard.step_seconds()? + watched.guard.save_seconds().unwrap_or(0.0))
        });
        each.reduce(f64::max).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// Since when the job writes a checkpoint, if it does.
    pub(crate) fn saves_since(&self) -> Option<Tick> {
        let since = self.limits.values().find_map(|watched| watched.guard.saves_since());
        since.map(Tick::from_seconds)
    }

    /// How long the next tick may be.
    pub(crate) fn next_look(&self) -> Duration {
        let soonest = self.limits.values().filter_map(|watched| watched.guard.next_look()).reduce(f64::min);
        Duration::from_secs_f64(soonest.unwrap_or(SLOWEST_LOOK).clamp(QUICKEST_LOOK, SLOWEST_LOOK))
    }

    /// Whether a chunk is done.
    pub(crate) fn chunk_done(&self, now: Tick) -> bool {
        match self.options.chunk {
            None => false,
            // Nothing is kept before the first step.
            Some(_) if self.life.first_step.is_none() => false,
            Some(Chunk::Time(time)) => now.since(self.life.began) >= time,
            Some(Chunk::Steps(steps)) => {
                let from = self.life.from.as_ref().and_then(|from| from.step).or(self.life.before);
                let from = from.or_else(|| self.life.first_step.map(|first| first - 1.0)).unwrap_or(0.0);
                // Asked a step early: the request is honoured at the end of the next.
                self.life.newest_step.is_some_and(|step| step - from >= steps.saturating_sub(1).max(1) as f64)
            }
        }
    }

    /// A new life begins.
    pub(crate) fn born(&mut self, now: Tick, from: Kept, ooms: usize) {
        self.limits.values_mut().for_each(|watched| watched.guard.born());
        let (before, made, before_made) = (self.life.newest_step, self.life.made(), self.life.before_made);
        let before_made = before_made.into_iter().chain(made).reduce(f64::max);
        let from = Some(from);
        self.life = Life { began: now, from, ooms_before: ooms, before, before_made, ..Life::default() };
        self.asked = None;
        self.told.remove(&Telling::Evaluation);
        self.told.remove(&Telling::Lost);
        self.places.begin();
    }

    /// Whether the first pass over the data is known to go on: what grows in it may be a cache of it.
    pub(crate) fn is_in_first_pass(&self) -> bool {
        let both = self.manner.pass_steps().zip(self.life.newest_step);
        both.is_some_and(|(pass, step)| step < pass)
    }

    /// Whether a job that is ended now would have something to begin from.
    pub(crate) fn has_something(&self) -> bool {
        Kept::newest(&self.places).is_some()
    }

    /// Starts the job with this command.
    pub(crate) fn start(
        &self,
        argv: &[OsString],
        variables: &[(&'static str, OsString)],
    ) -> Result<Child, StartError> {
        job::start_as(&self.job, argv, &self.restore.with(variables))
    }

    /// A step takes about this long, as far as that is known.
    pub(crate) fn step_seconds(&self) -> Option<f64> {
        self.limits.values().find_map(|watched| watched.guard.step_seconds())
    }

    /// The signal on which the job saves: named by the user, or known of its framework.
    pub(crate) fn stop_signal(&self) -> Option<Signal> {
        self.options.stop_signal.or(self.manner.saves_on)
    }

    /// Whether the end of the job was our doing: it took up what it was asked, or was ended.
    pub(crate) fn stopped_it(&self, exit: Exit) -> bool {
        let ended = |asked: &Asked| match asked.rung {
            Rung::Flag => asked.taken.is_some(),
            Rung::Signal | Rung::Kill | Rung::Hung | Rung::Overdue => exit != Exit::Unknown,
        };
        self.asked.as_ref().is_some_and(ended)
    }
}

fn name_of(kind: &LimitKind) -> String {
    match kind {
        LimitKind::Cgroup { path } => format!("cgroup {path}"),
        LimitKind::AddressSpace { process } => format!("address space {process}"),
        LimitKind::Host => "host".to_owned(),
        LimitKind::DevShm => "shm".to_owned(),
        LimitKind::Slurm => "slurm".to_owned(),
        LimitKind::Asked => "asked".to_owned(),
    }
}
