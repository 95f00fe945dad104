//! Decides when a job has to be asked to save and stop: while one more step and one save still fit, and not before.
//!
//! Never a percentage. A job whose save takes a third of the limit has to be asked early; one that fills up to 97 % and
//! stays there must be left alone. What counts: how much each step adds, how many steps go by until a request is
//! honoured, and what a save takes for itself, all learnt from the job. Waiting one more step must not make it too late.
//! Pure: looks and marks come in, a call goes out. Not here: limits, requests, signals (see `run::guard`).

mod course;
mod jumps;
mod laps;
mod learnt;
mod moment;
mod words;

use laps::Laps;
use learnt::{Beside, Found, Learnt, Stage};
use lowtide_model::{Mark, MarkKind};
use moment::Moment;
use serde::Serialize;

/// Looks before the point of no return.
const LOOKS_LEFT: f64 = 20.0;
/// A few looks meet neither the floor nor the peak of a step exactly: this part of what lies between is not known.
const DOUBT_PART: f64 = 0.07;
/// What looks read is not exact, a save's peak neither: this part of the limit.
const INEXACT_PART: f64 = 1.5e-3;
/// Looks in a step when a request may be near.
const LOOKS_A_STEP: f64 = 12.0;
/// Laps before anything is believed.
const LEAST_LAPS: usize = 3;
/// From seeing to asking, in seconds, when looks come in time.
const REACTION_SECONDS: f64 = 0.05;
/// The quickest and the slowest look, in seconds.
pub const QUICKEST_LOOK: f64 = 0.005;
/// See above: a job that was flat for an hour may begin to rush.
pub const SLOWEST_LOOK: f64 = 0.1;
/// A look that came late is remembered for about so many seconds ...
const LATE_FADES_SECONDS: f64 = 10.0;
/// ... and one that comes later than this many seconds was suspended.
const MOST_LATE: f64 = 1.0;
/// A step has grown when it is above all before it by this part of what steps add.
const GROWN_PART: f64 = 0.25;
/// Steps are not all alike.
const SPARE_STEPS: f64 = 0.1;
/// A request may become necessary soon when so many steps more would make it so.
const SOON_STEPS: f64 = 16.0;
/// The kernel's kill is near when it is this many looks away ...
const EDGE_LOOKS: f64 = 3.0;
/// ... or this many seconds.
const EDGE_SECONDS: f64 = 0.02;

/// Memory under a limit at one moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// When, in seconds.
    pub seconds: f64,
    /// What is taken.
    pub used: f64,
    /// The highest since the look before, as far as the kernel kept it; never below `used`.
    pub high: f64,
    /// The limit.
    pub limit: f64,
}

/// What has to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Nothing.
    Hold,
    /// Ask it to save and stop now: a step later would be too late.
    Ask(Why),
    /// It is too late for one more step and a save.
    Lost(Why),
}

/// What makes it necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Memory grows step by step.
    Growth,
    /// The next evaluation will not fit beside it.
    Evaluation,
}

/// The numbers of a call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Why {
    /// What makes it necessary.
    pub cause: Cause,
    /// What is taken.
    pub used_bytes: f64,
    /// The limit.
    pub limit_bytes: f64,
    /// Growth a step.
    pub bytes_per_step: f64,
    /// A step takes this long.
    pub step_seconds: f64,
    /// Memory a save takes for itself; nothing where it is not known.
    pub save_bytes: Option<f64>,
    /// A save takes this long.
    pub save_seconds: Option<f64>,
    /// Steps until the limit is reached.
    pub steps_left: Option<f64>,
    /// The evaluation that will not fit: its step and what it takes.
    pub evaluation: Option<(f64, f64)>,
}

/// Watches one limit over the lives of a job.
#[derive(Clone, Debug)]
pub struct Guard {
    laps: Laps,
    learnt: Learnt,
    moment: Moment,
    step: Option<f64>,
    /// Whether a step ended in this life.
    stepped: bool,
    /// Time of evaluations, saves and loads, and since when one goes on.
    paused: f64,
    paused_at: Option<f64>,
    /// Such a thing began or ended since the last look.
    turned: bool,
    /// The lowest rank that spoke: its marks count.
    lead: Option<u32>,
    /// When the next look was planned, in seconds after the last, and how late looks come.
    planned: f64,
    late: f64,
    /// Steps that go by until a request is honoured.
    stop_steps: f64,
    /// Where growth ends, if that is known.
    bound: Option<f64>,
    /// How fast the life before grew, in bytes a second.
    grew: Option<f64>,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            laps: Laps::default(),
            learnt: Learnt::default(),
            moment: Moment::default(),
            step: None,
            stepped: false,
            paused: 0.0,
            paused_at: None,
            turned: false,
            lead: None,
            planned: SLOWEST_LOOK,
            late: 0.0,
            stop_steps: 1.0,
            bound: None,
            grew: None,
        }
    }
}

impl Guard {
    /// Takes a look. Looks come in the order of their time; nonsense is left out.
    pub fn look(&mut self, look: Look) {
        let sane = [look.seconds, look.used, look.high, look.limit].into_iter().all(f64::is_finite);
        let later = self.moment.newest().is_none_or(|last| look.seconds > last.seconds);
        if !sane || !later || look.limit <= 0.0 {
            return;
        }
        if let Some(last) = self.moment.newest() {
            let passed = look.seconds - last.seconds;
            let late = (passed - self.planned).clamp(0.0, MOST_LATE);
            self.late = late.max(self.late * (-passed / LATE_FADES_SECONDS).exp());
        }
        self.moment.take(look);
        // What the kernel kept as the highest may be of the save or the evaluation that has just ended.
        let kept = look;
        let look = if std::mem::take(&mut self.turned) { Look { high: look.used, ..look } } else { look };
        self.learnt.look_after(&kept);
        match self.learnt.stage() {
            Stage::Training => self.laps.look(&self.in_training(&look)),
            Stage::Eval | Stage::Save | Stage::Load => {
                self.learnt.look(&Look { high: look.high.max(look.used), ..look });
            }
        }
        self.planned = self.next_look().unwrap_or(SLOWEST_LOOK).clamp(QUICKEST_LOOK, SLOWEST_LOOK);
    }

    /// How long it takes from seeing to asking: longer where looks come late.
    fn reaction(&self) -> f64 {
        REACTION_SECONDS + self.late
    }

    /// Takes a mark of the job, before the look of the same moment.
    pub fn mark(&mut self, mark: &Mark) {
        if !self.leads(mark.rank) {
            return;
        }
        if mark.kind == MarkKind::Step {
            return self.take_step(mark.number, mark.tick.seconds());
        }
        let evaluates = mark.kind == MarkKind::Eval;
        let find = if evaluates { Laps::found_by_eval } else { Laps::found };
        let found = self.moment.newest().map(|look| find(&self.laps, look.used));
        self.learnt.mark(mark, found, self.step());
        let seconds = mark.tick.seconds();
        self.turned |= matches!(mark.kind, MarkKind::Eval | MarkKind::Save | MarkKind::Load);
        if self.learnt.stage() != Stage::Training {
            self.paused_at.get_or_insert(seconds);
        } else if let Some(paused_at) = self.paused_at.take() {
            self.paused += (seconds - paused_at).max(0.0);
        }
    }

    /// The look on a clock that stands still while the job does not train.
    fn in_training(&self, look: &Look) -> Look {
        Look { seconds: look.seconds - self.paused, ..*look }
    }

    fn take_step(&mut self, number: f64, seconds: f64) {
        let before = self.step.filter(|_| self.stepped);
        if !number.is_finite() || before.is_some_and(|before| number <= before) {
            return;
        }
        self.laps.stepped(before.map_or(1.0, |before| number - before), seconds - self.paused);
        self.step = Some(number);
        self.stepped = true;
    }

    fn leads(&mut self, rank: Option<u32>) -> bool {
        let Some(rank) = rank else { return true };
        let lead = *self.lead.get_or_insert(rank);
        self.lead = Some(lead.min(rank));
        rank <= lead
    }

    /// The job began again: what it holds starts anew, what was learnt of its saves and evaluations stays.
    pub fn born(&mut self) {
        let grew = self.laps.growth().map(|growth| growth.per_step / growth.step_seconds);
        self.grew = grew.or(self.grew);
        self.laps = self.laps.of_next_life();
        self.learnt.born();
        self.moment = Moment::default();
        self.stepped = false;
        self.paused_at = None;
        self.bound = None;
    }

    /// So many steps go by until a request is honoured: one, or more where several ranks have to agree.
    pub fn set_stop_steps(&mut self, steps: f64) {
        self.stop_steps = steps.max(1.0);
    }

    /// The verdict knows where growth ends, in bytes of what is watched here.
    pub fn set_bound(&mut self, bound: Option<f64>) {
        self.bound = bound.filter(|bound| bound.is_finite());
    }

    /// The newest step of this life.
    pub fn step(&self) -> Option<f64> {
        self.step.filter(|_| self.stepped)
    }

    /// Since when the job writes a checkpoint, in seconds, if it does.
    pub fn saves_since(&self) -> Option<f64> {
        self.learnt.saves_since()
    }

    /// How long a save takes, as far as that is known.
    pub fn save_seconds(&self) -> Option<f64> {
        self.learnt.save_seconds()
    }

    /// How long a step takes, as far as that is known.
    pub fn step_seconds(&self) -> Option<f64> {
        self.laps.step_seconds()
    }

    /// What has to be done now.
    pub fn call(&self) -> Call {
        let Some(look) = self.moment.newest() else { return Call::Hold };
        // In an evaluation nobody honours a request, and what it takes it gives back.
        if self.learnt.stage() != Stage::Training || self.laps.len() < LEAST_LAPS {
            return Call::Hold;
        }
        self.evaluation_ahead(look).or_else(|| self.growth_ahead(look)).unwrap_or(Call::Hold)
    }

    fn growth_ahead(&self, look: &Look) -> Option<Call> {
        if self.needed_after(self.stop_steps + 1.0)? <= look.limit {
            return None;
        }
        // Where this step has already grown, nothing more is to be learnt by waiting.
        if self.waits() > 0.0 && !self.has_grown(look) {
            return None;
        }
        let why = self.why(look, Cause::Growth);
        // A job that may still fit is asked, and not told that it is lost.
        let late = self.needed_from(self.laps.surely_ends_at(look.used)?, self.stop_steps)? > look.limit;
        Some(if late { Call::Lost(why) } else { Call::Ask(why) })
    }

    /// Whether the step under way has already gone well beyond all before it.
    fn has_grown(&self, look: &Look) -> bool {
        let grown = self.laps.growth().map_or(0.0, |growth| growth.per_step * GROWN_PART);
        look.used > self.laps.record() + grown
    }

    /// How long a request can wait, in seconds: it is honoured when the step under way ends, however early in it it comes,
    /// and the later it comes, the more is known.
    fn waits(&self) -> f64 {
        let look = self.moment.newest();
        let lasts = look.and_then(|look| self.laps.step_lasts(self.in_training(look).seconds));
        lasts.map_or(0.0, |lasts| lasts - self.reaction() - QUICKEST_LOOK)
    }

    /// The highest memory if so many more steps are made after the last that ended, and then a save.
    fn needed_after(&self, steps: f64) -> Option<f64> {
        self.needed_from(self.laps.ends_at(self.moment.newest()?.used)?, steps)
    }

    /// The same where so much is taken when a step ends.
    fn needed_from(&self, ends: f64, steps: f64) -> Option<f64> {
        let (look, growth) = (self.moment.newest()?, self.laps.growth()?);
        if self.laps.is_below(look.used) {
            return None;
        }
        let (then, since) = self.laps.highs(look.used);
        let high = self.high(look);
        let save = self.learnt.save_peak().unwrap_or(0.0);
        // Steps that may end before we have seen and said anything.
        let unseen = (self.reaction() / growth.step_seconds - 0.5).max(0.0);
        // The step under way may add nothing, but the next may.
        let pauses = self.laps.pauses() && !self.has_grown(look);
        let steps = if pauses { steps - 1.0 } else { steps };
        let spare = growth.per_step * (unseen + SPARE_STEPS);
        let ahead = self.laps.clumped(steps).max(growth.per_step * steps) + spare;
        // A bound that was passed was none.
        let ahead = self.bound.filter(|bound| *bound >= high).map_or(ahead, |bound| ahead.min(bound - high));
        let peak = (then + ahead).max(since + (ahead - growth.per_step).max(0.0)).max(high);
        let doubt = if self.laps.is_dense() { 0.0 } else { DOUBT_PART * self.laps.usual_swing() };
        // Steps end higher or lower: the save comes on top of what the one holds that it follows.
        Some((peak + doubt).max(ends + ahead + save) + look.limit * INEXACT_PART)
    }

    /// Whether a request may become necessary within the next steps.
    fn soon(&self) -> bool {
        let limit = self.moment.newest().map(|look| look.limit);
        self.needed_after(self.stop_steps + SOON_STEPS)
            .zip(limit)
            .is_some_and(|(needed, limit)| needed > limit)
    }

    /// The last evaluation tells what the next one takes: asked while a step is left before it.
    fn evaluation_ahead(&self, look: &Look) -> Option<Call> {
        let exceeds = self.evaluation_exceeds()?;
        let left = exceeds.0 - self.step()?;
        // It runs at the end of its step, before any save; steps that end before we have seen and said anything count too.
        let step_seconds = self.laps.step_seconds().unwrap_or(1.0).max(1e-3);
        let unseen = (self.reaction() + self.moment.look_seconds()) / step_seconds;
        // A look may be missed, and nothing that is learnt in a step changes what an evaluation takes.
        (left <= self.stop_steps + 2.0 + unseen).then(|| {
            let why = Why { evaluation: Some(exceeds), ..self.why(look, Cause::Evaluation) };
            if left <= self.stop_steps { Call::Lost(why) } else { Call::Ask(why) }
        })
    }

    /// The next evaluation, if it will not fit: its step and what it takes. Known as soon as one was seen.
    pub fn evaluation_exceeds(&self) -> Option<(f64, f64)> {
        let (look, step) = (self.moment.newest()?, self.step()?);
        let grows = self.laps.growth().map_or(0.0, |growth| growth.per_step);
        // What the step under way takes and gives back is no part of it.
        let found = Found { floor: self.laps.floor(look.used)?, ..self.laps.found(look.used) };
        let next = self.learnt.next_eval(&Beside { step, found, per_step: grows })?;
        let peak = self.bound.map_or(next.peak, |bound| next.peak.min(bound + next.takes));
        (peak + look.limit * INEXACT_PART > look.limit).then_some((next.step, next.takes))
    }

    /// The highest of late.
    fn high(&self, look: &Look) -> f64 {
        let (then, since) = self.laps.highs(look.used);
        then.max(since).max(look.used)
    }

    fn why(&self, look: &Look, cause: Cause) -> Why {
        let growth = self.laps.growth();
        let per_step = growth.map_or(0.0, |growth| growth.per_step);
        let left = look.limit - self.high(look);
        Why {
            cause,
            used_bytes: look.used,
            limit_bytes: look.limit,
            bytes_per_step: per_step,
            step_seconds: self.laps.step_seconds().unwrap_or(0.0),
            save_bytes: self.learnt.save_peak(),
            save_seconds: self.learnt.save_seconds(),
            steps_left: (per_step > 0.0).then(|| (left / per_step).max(0.0)),
            evaluation: None,
        }
    }

    /// Whether the limit is reached before anything else can happen: the next step will not fit, or memory rushes there.
    pub fn at_the_edge(&self) -> bool {
        let Some(look) = self.moment.newest() else { return false };
        // What a save or an evaluation takes it gives back; ending it here could only take what would have fitted. And what
        // a job takes while it starts says nothing yet.
        if self.learnt.stage() != Stage::Training || self.laps.len() < LEAST_LAPS {
            return false;
        }
        let next_step = || {
            let growth = self.laps.growth()?;
            let high = self.high(look);
            let top = high + growth.per_step;
            let top = self.bound.filter(|bound| *bound >= high).map_or(top, |bound| top.min(bound));
            Some(top > look.limit)
        };
        self.rushes() || next_step().unwrap_or(false)
    }

    /// Whether memory runs up to the limit at this very moment.
    pub fn rushes(&self) -> bool {
        let (Some(look), Some(rate)) = (self.moment.newest(), self.moment.rush()) else { return false };
        let left = (look.limit - look.used).max(0.0) / rate;
        let edge = (EDGE_LOOKS * self.moment.look_seconds()).clamp(EDGE_SECONDS, EDGE_SECONDS * EDGE_LOOKS);
        let trains = self.learnt.stage() == Stage::Training && self.laps.len() >= LEAST_LAPS;
        trains && look.used > self.usual_top(look) && left < edge
    }

    /// As high as memory may go at this moment without being out of hand: to where it was before, and in the step under way as
    /// much further as steps add, where that fits. A step may take all it takes at once, and on a busy machine slowly enough
    /// that many looks see it rise.
    fn usual_top(&self, look: &Look) -> f64 {
        let record = self.laps.record();
        let Some(growth) = self.laps.growth() else { return record };
        let (then, _) = self.laps.highs(look.used);
        let adds = self.laps.clumped(1.0).max(growth.per_step) * (1.0 + SPARE_STEPS);
        let doubt = if self.laps.is_dense() { 0.0 } else { DOUBT_PART * self.laps.usual_swing() };
        let top = then + adds + doubt;
        if top <= look.limit { record.max(top) } else { record }
    }

    /// Whether a save has taken more than any save before it: what it takes now it will hardly give back.
    pub fn save_outgrown(&self) -> bool {
        let Some(look) = self.moment.newest() else { return false };
        self.learnt.save_ends_below(look.limit).is_some_and(|most| look.used > most)
    }

    /// Whether the job saves, and memory reaches the limit with the next looks all the same.
    pub fn limit_is_next_in_save(&self) -> bool {
        // What the step before it took is no rise of the save's.
        self.learnt.saves_since().is_some_and(|since| self.moment.limit_is_next(since))
    }

    /// When to look again, in seconds: often enough that some looks are left before it is too late.
    pub fn next_look(&self) -> Option<f64> {
        let look = self.moment.newest()?;
        let by_growth =
            self.seconds_left().map(|left| left / LOOKS_LEFT + self.waits().max(0.0) / LOOKS_A_STEP);
        let by_rush =
            self.moment.newest_rate().map(|rate| (look.limit - look.used).max(0.0) / rate / LOOKS_LEFT);
        let by_evaluation = self.evaluation_exceeds().zip(self.step()).zip(self.laps.step_seconds()).map(
            |(((at, _), step), seconds)| (at - step - self.stop_steps - 2.0).max(0.0) * seconds / LOOKS_LEFT,
        );
        // The floor and the peak of every step have to be met when it matters.
        let by_step =
            self.laps.growth().filter(|_| self.soon()).map(|growth| growth.step_seconds / LOOKS_A_STEP);
        let by_save = self.moment.mean_rate().filter(|_| self.save_outgrown());
        let by_save = by_save.map(|rate| (look.limit - look.used).max(0.0) / rate / LOOKS_LEFT);
        // What grew in the life before is looked at as if it grew again, until it shows.
        let by_before = self.grew.filter(|_| by_growth.is_none());
        let by_before = by_before.map(|rate| (look.limit - look.used).max(0.0) / rate / LOOKS_LEFT);
        let ways = [by_growth, by_rush, by_evaluation, by_step, by_save, by_before];
        ways.into_iter().flatten().filter(|time| *time >= 0.0).reduce(f64::min)
    }

    /// How long until it has to be asked, if it goes on like this.
    pub fn seconds_left(&self) -> Option<f64> {
        let (look, growth) = (self.moment.newest()?, self.laps.growth()?);
        let left = (look.limit - self.needed_after(self.stop_steps + 1.0)?).max(0.0);
        Some(left / growth.per_step * growth.step_seconds)
    }
}
