//! What a job's own past says about its next save and its next evaluation. Kept when the job begins again.

use super::Look;
use lowtide_model::{Mark, MarkKind, MarkPhase};

/// Without a save to learn from, writing a checkpoint is taken to go at this rate: a slow disk's.
const BYTES_A_SECOND: f64 = 100e6;
/// Steps between evaluations are learnt from the newest few.
const EVALS_KEPT: usize = 4;

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
    /// Memory when it began, as far as that was seen before.
    from: Option<f64>,
    highest: f64,
    /// The lowest in it, and at its end: it keeps nothing, so it began no higher.
    lowest: f64,
    /// How far from that it may have been.
    play: f64,
    seen: bool,
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
        let from = self.from?;
        let base = if (self.lowest - from).abs() <= self.play { self.lowest } else { from };
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
    eval_height: Option<f64>,
    /// How much more each of the last two took than the one before it.
    eval_grew: [Option<f64>; 2],
    eval_steps: Vec<f64>,
}

impl Learnt {
    pub(super) fn stage(&self) -> Stage {
        self.open.map_or(Stage::Training, |open| open.stage)
    }

    pub(super) fn saves_since(&self) -> Option<f64> {
        self.open.filter(|open| open.stage == Stage::Save).map(|open| open.since)
    }

    /// A mark of the leading rank. `found` is what it finds if it begins something, `step` the newest step.
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
                let from = found.map(|found| found.floor);
                self.open = Some(Open {
                    stage,
                    since: seconds,
                    from,
                    highest: 0.0,
                    lowest: f64::INFINITY,
                    play: found.map_or(0.0, |found| found.play),
                    seen: false,
                });
                if stage == Stage::Eval {
                    self.eval_at(step);
                }
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
            // The newest: an evaluation set may have been made smaller.
            Stage::Eval if open.seen => {
                let before = self.eval_height.replace(height);
                self.eval_grew = [self.eval_grew[1], before.map(|before| height - before)];
            }
            Stage::Eval => self.eval_height = Some(self.eval_height.unwrap_or(0.0).max(height)),
            Stage::Training | Stage::Load => {}
        }
    }

    fn eval_at(&mut self, step: Option<f64>) {
        let Some(step) = step.filter(|step| self.eval_steps.last().is_none_or(|last| step > last)) else {
            return;
        };
        if self.eval_steps.len() >= EVALS_KEPT {
            self.eval_steps.remove(0);
        }
        self.eval_steps.push(step);
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
            open.from.get_or_insert(look.used);
            open.highest = open.highest.max(look.high);
            open.lowest = open.lowest.min(look.used);
            open.seen = true;
        }
    }

    /// The look after: where it ended, and its peak as the kernel may have kept it, if nobody looked while it went on.
    pub(super) fn look_after(&mut self, look: &Look) {
        let Some(mut open) = self.over.take() else { return };
        open.lowest = open.lowest.min(look.used);
        if !open.seen {
            open.highest = open.highest.max(look.high);
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
        let from = self.open.filter(|open| open.stage == Stage::Save)?.from?;
        Some(from + self.save_peak? * OUTGROWN + limit * OUTGROWN_PART)
    }

    /// The next evaluation: at which step, and what it takes beside what training holds.
    pub(super) fn next_eval(&self, step: f64) -> Option<(f64, f64)> {
        let height = self.eval_height?;
        // If each took more than the one before it, the next will too.
        let grew: Vec<f64> = self.eval_grew.into_iter().flatten().collect();
        let each = grew.iter().all(|more| *more > 0.0) && !grew.is_empty();
        let more = if each { grew.iter().sum::<f64>() / grew.len() as f64 } else { 0.0 };
        let last = *self.eval_steps.last()?;
        let gaps: Vec<f64> = self.eval_steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // After the first, the next is as far away as the first was from the beginning.
        let gap = gaps.into_iter().reduce(f64::min).unwrap_or(last).max(1.0);
        let passed = ((step - last) / gap).floor().max(0.0);
        Some((last + gap * (passed + 1.0), height + more))
    }

    /// The job begins again: nothing is open.
    pub(super) fn born(&mut self) {
        if let Some(open) = self.over.take().filter(|open| open.seen) {
            self.settle(open);
        }
        self.open = None;
    }
}
