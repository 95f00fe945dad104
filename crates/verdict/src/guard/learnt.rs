//! What a job's own past says about its next save and its next evaluation. Kept when the job begins again.

use super::Look;
use lowtide_model::{Mark, MarkKind, MarkPhase};

/// Without a save to learn from, writing a checkpoint is taken to go at this rate: a slow disk's.
const BYTES_A_SECOND: f64 = 100e6;
/// Steps between evaluations are learnt from the newest few.
const EVALS_KEPT: usize = 4;
/// ... and whether each takes more than the one before it from so many.
const GREW_EVALS: usize = 2;
/// Fewer looks at an evaluation may all have missed its peak.
const KNOWN_LOOKS: u32 = 3;
/// A save that takes so many times what any before it took is another thing than a save.
const OUTGROWN: f64 = 1.25;
/// ... and this part of the limit more, for saves that take next to nothing.
const OUTGROWN_PART: f64 = 0.004;

/// What the job does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Training,
    Eval,
    Save,
    Load,
}

/// A stretch that is being measured.
#[derive(Clone, Copy, Debug)]
struct Open {
    stage: Stage,
    since: f64,
    /// The newest step when it began.
    step: Option<f64>,
    /// What it found, as far as that was seen before.
    found: Option<Found>,
    highest: f64,
    /// The lowest in it, and at its end: it keeps nothing, so it began no higher.
    lowest: f64,
    /// What was taken at the look after it.
    after: Option<f64>,
    /// Looks at it, and whether the kernel kept its peak.
    looks: u32,
    kept: bool,
}

/// What an evaluation or a save finds when it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) floor: f64,
    /// So far from that it may be.
    pub(super) play: f64,
}

impl Open {
    /// What it takes beside what it found.
    fn height(&self) -> Option<f64> {
        let Found { floor, play } = self.found?;
        // What training still holds afterwards it had taken before.
        let held = self.after.map_or(floor, |after| floor.max(after - play));
        let base = if (self.lowest - floor).abs() <= play { self.lowest } else { held };
        Some((self.highest - base).max(0.0))
    }
}

/// What was learnt.
#[derive(Clone, Debug, Default)]
pub(super) struct Learnt {
    open: Option<Open>,
    /// One that has just ended: the next look belongs to it as well.
    over: Option<Open>,
    save_seconds: Option<f64>,
    save_peak: Option<f64>,
    /// Bytes of the model and what belongs to it, as the job tells.
    model_bytes: Option<f64>,
    /// Bytes of the optimizer's state, which are written as well.
    optimizer_bytes: Option<f64>,
    /// The newest few evaluations, each at a later step than the one before it.
    evals: Vec<Evaluation>,
}

/// An evaluation that was seen. Its peak is known well, what it found only as well as looks met the floor of a step.
#[derive(Clone, Copy, Debug)]
struct Evaluation {
    step: f64,
    peak: f64,
    found: Found,
    /// Whether looks met its peak: else it may have taken more.
    known: bool,
}

/// Training, as it was found and as it grows: what an evaluation is forecast from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    pub(super) step: f64,
    pub(super) found: Found,
    pub(super) per_step: f64,
}

impl Beside {
    /// How much more training holds now than it did then: as it grows, unless floors show surely that it is otherwise.
    fn rise_since(&self, eval: &Evaluation) -> f64 {
        let (seen, grown) = (self.found.floor - eval.found.floor, self.per_step * (self.step - eval.step));
        if (seen - grown).abs() <= eval.found.play.max(self.found.play) { grown } else { seen }
    }
}

/// The evaluation that comes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextEval {
    pub(super) step: f64,
    /// Memory at its peak.
    pub(super) peak: f64,
    /// What of that it takes for itself.
    pub(super) takes: f64,
}

impl Learnt {
    pub(super) fn stage(&self) -> Stage {
        self.open.map_or(Stage::Training, |open| open.stage)
    }

    pub(super) fn saves_since(&self) -> Option<f64> {
        self.open.filter(|open| open.stage == Stage::Save).map(|open| open.since)
    }

    /// A mark of the leading rank. `found` is what it finds if it begins something, `step` the newest of this life.
    pub(super) fn mark(&mut self, mark: &Mark, found: Option<Found>, step: Option<f64>) {
        let stage = match mark.kind {
            MarkKind::Eval => Stage::Eval,
            MarkKind::Save => Stage::Save,
            MarkKind::Load => Stage::Load,
            MarkKind::Info => return self.facts(mark.extra.as_deref()),
            MarkKind::Step | MarkKind::Epoch | MarkKind::Custom => return,
        };
        let seconds = mark.tick.seconds();
        match mark.phase {
            MarkPhase::Start => {
                self.open = Some(Open {
                    stage,
                    since: seconds,
                    step,
                    found,
                    highest: 0.0,
                    lowest: f64::INFINITY,
                    after: None,
                    looks: 0,
                    kept: false,
                });
            }
            MarkPhase::End => self.ended(stage, seconds),
            MarkPhase::Point => {}
        }
    }

    fn ended(&mut self, stage: Stage, seconds: f64) {
        let Some(open) = self.open.take().filter(|open| open.stage == stage) else { return };
        if stage == Stage::Save {
            self.save_seconds = Some(self.save_seconds.unwrap_or(0.0).max(seconds - open.since));
        }
        self.over = Some(open);
    }

    /// Takes what a stretch took beside what it found.
    fn settle(&mut self, open: Open) {
        let Some(height) = open.height() else { return };
        match open.stage {
            Stage::Save => self.save_peak = Some(self.save_peak.unwrap_or(0.0).max(height)),
            Stage::Eval => self.evaluated(open),
            Stage::Training | Stage::Load => {}
        }
    }

    fn evaluated(&mut self, open: Open) {
        let (Some(step), Some(found)) = (open.step, open.found) else { return };
        let known = open.kept || open.looks >= KNOWN_LOOKS;
        // Nobody met its peak: it took no less than the one before it, as far as anyone knows.
        let before =
            self.evals.last().filter(|_| !known).map(|last| last.peak - last.found.floor + found.floor);
        let peak = before.map_or(open.highest, |before| before.max(open.highest)).max(found.floor);
        // A step that is made once more, after a new start, is evaluated once more.
        self.evals.retain(|eval| eval.step < step);
        if self.evals.len() >= EVALS_KEPT {
            self.evals.remove(0);
        }
        self.evals.push(Evaluation { step, peak, found, known });
    }

    fn facts(&mut self, extra: Option<&str>) {
        let facts: Option<serde_json::Value> = extra.and_then(|text| serde_json::from_str(text).ok());
        let number = |name: &str| facts.as_ref()?.get(name)?.as_f64().filter(|n| n.is_finite() && *n >= 0.0);
        self.model_bytes = number("model_bytes").or(self.model_bytes);
        self.optimizer_bytes = number("optimizer_bytes").or(self.optimizer_bytes);
    }

    /// A look while something other than training goes on.
    pub(super) fn look(&mut self, look: &Look) {
        if let Some(open) = &mut self.open {
            open.found.get_or_insert(Found { floor: look.used, play: 0.0 });
            open.highest = open.highest.max(look.high);
            open.lowest = open.lowest.min(look.used);
            open.looks += 1;
        }
    }

    /// The look after: where it ended, and its peak as the kernel may have kept it, if nobody looked while it went on.
    pub(super) fn look_after(&mut self, look: &Look) {
        let Some(mut open) = self.over.take() else { return };
        open.lowest = open.lowest.min(look.used);
        open.after = Some(look.used);
        if open.looks == 0 {
            open.highest = open.highest.max(look.high);
            open.kept = look.high > look.used;
        }
        self.settle(open);
    }

    /// Memory a save takes for itself: as seen, else as large as the model.
    pub(super) fn save_peak(&self) -> Option<f64> {
        self.save_peak.or(self.model_bytes)
    }

    pub(super) fn save_seconds(&self) -> Option<f64> {
        let written = self.model_bytes.map(|bytes| bytes + self.optimizer_bytes.unwrap_or(0.0));
        self.save_seconds.or(written.map(|bytes| bytes / BYTES_A_SECOND))
    }

    /// Where memory should stay below in the save that goes on, by what saves took that were seen.
    pub(super) fn save_ends_below(&self, limit: f64) -> Option<f64> {
        let found = self.open.filter(|open| open.stage == Stage::Save)?.found?;
        Some(found.floor + self.save_peak? * OUTGROWN + limit * OUTGROWN_PART)
    }

    /// The next evaluation, by the last: its peak, moved by as much as training rose and rises until then.
    pub(super) fn next_eval(&self, now: &Beside) -> Option<NextEval> {
        let last = self.evals.last()?;
        let step = self.next_eval_step(now.step)?;
        let more = self.eval_grows(now.per_step);
        let training = last.found.floor + now.rise_since(last) + now.per_step * (step - now.step).max(0.0);
        let takes = last.peak - last.found.floor + more;
        Some(NextEval { step, peak: training + takes, takes })
    }

    fn next_eval_step(&self, step: f64) -> Option<f64> {
        let last = self.evals.last()?.step;
        let gaps = self.evals.windows(2).map(|pair| pair[1].step - pair[0].step);
        // After the first, the next is as far away as the first was from the beginning.
        let gap = gaps.reduce(f64::min).unwrap_or(last).max(1.0);
        let passed = ((step - last) / gap).floor().max(0.0);
        Some(last + gap * (passed + 1.0))
    }

    /// How much more the next evaluation takes than the last: as much as each of the newest did than the one before it. Less
    /// only when two did in a row: a set that was made smaller once is not made smaller again.
    fn eval_grows(&self, per_step: f64) -> f64 {
        let more = |pair: &[Evaluation]| {
            let then = Beside { step: pair[1].step, found: pair[1].found, per_step };
            pair[1].peak - pair[0].peak - then.rise_since(&pair[0])
        };
        let newest = self.evals.windows(2).rev().take(GREW_EVALS);
        let grew: Vec<f64> = newest.filter(|pair| pair.iter().all(|eval| eval.known)).map(more).collect();
        let least = grew.iter().copied().fold(f64::INFINITY, f64::min);
        let most = grew.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if grew.is_empty() || least <= 0.0 && (most >= 0.0 || grew.len() < GREW_EVALS) {
            return 0.0;
        }
        if most < 0.0 { most } else { grew.iter().sum::<f64>() / grew.len() as f64 }
    }

    /// The job begins again: nothing is open.
    pub(super) fn born(&mut self) {
        if let Some(open) = self.over.take().filter(|open| open.looks > 0) {
            self.settle(open);
        }
        self.open = None;
        // What training holds now has nothing to do with what it held then, but for what is seen of it.
        self.evals.iter_mut().for_each(|eval| eval.found.play = 0.0);
    }
}
