//! What a job's own past says about its next save and its next evaluation. Kept when the job begins again.

use lowtide_model::{Mark, MarkKind, MarkPhase};

/// Without a save to learn from, writing a checkpoint is taken to go at this rate: a slow disk's.
const BYTES_A_SECOND: f64 = 100e6;
/// Steps between evaluations are learnt from the newest few.
const EVALS_KEPT: usize = 4;

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
    /// Memory when it began.
    from: Option<f64>,
    highest: f64,
    seen: bool,
}

/// What was learnt.
#[derive(Clone, Debug, Default)]
pub(super) struct Learnt {
    open: Option<Open>,
    /// One that ended before anybody looked.
    unseen: Option<Open>,
    save_seconds: Option<f64>,
    save_peak: Option<f64>,
    /// Bytes of the model and what belongs to it, as the job tells.
    model_bytes: Option<f64>,
    /// Bytes of the optimizer's state, which are written as well.
    optimizer_bytes: Option<f64>,
    eval_height: Option<f64>,
    eval_steps: Vec<f64>,
}

impl Learnt {
    pub(super) fn stage(&self) -> Stage {
        self.open.map_or(Stage::Training, |open| open.stage)
    }

    pub(super) fn saves_since(&self) -> Option<f64> {
        self.open.filter(|open| open.stage == Stage::Save).map(|open| open.since)
    }

    /// A mark of the leading rank. `used` is the newest memory, `step` the newest step.
    pub(super) fn mark(&mut self, mark: &Mark, used: Option<f64>, step: Option<f64>) {
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
                    from: used,
                    highest: used.unwrap_or(0.0),
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
        self.unseen = Some(open).filter(|open| !open.seen);
        let height = open.from.map(|from| (open.highest - from).max(0.0));
        if stage == Stage::Save {
            self.save_seconds = Some(self.save_seconds.unwrap_or(0.0).max(seconds - open.since));
            self.save_peak =
                height.map(|height| self.save_peak.unwrap_or(0.0).max(height)).or(self.save_peak);
        } else if stage == Stage::Eval {
            // The newest: an evaluation set may have been made smaller.
            self.eval_height = height.or(self.eval_height);
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

    /// A look while something other than training goes on, or at its end.
    pub(super) fn look(&mut self, high: f64) {
        if let Some(open) = &mut self.open {
            open.from.get_or_insert(high);
            open.highest = open.highest.max(high);
            open.seen = true;
        }
    }

    /// The look after a save that was over before anybody looked: the kernel may have kept its peak.
    pub(super) fn look_after(&mut self, high: f64) {
        let Some(Open { stage, from: Some(from), .. }) = self.unseen.take() else { return };
        let height = (high - from).max(0.0);
        match stage {
            Stage::Save => self.save_peak = Some(self.save_peak.unwrap_or(0.0).max(height)),
            Stage::Eval => self.eval_height = Some(self.eval_height.unwrap_or(0.0).max(height)),
            Stage::Training | Stage::Load => {}
        }
    }

    /// Memory a save takes for itself: as seen, else as large as the model.
    pub(super) fn save_peak(&self) -> Option<f64> {
        self.save_peak.or(self.model_bytes)
    }

    pub(super) fn save_seconds(&self) -> Option<f64> {
        let written = self.model_bytes.map(|bytes| bytes + self.optimizer_bytes.unwrap_or(0.0));
        self.save_seconds.or(written.map(|bytes| bytes / BYTES_A_SECOND))
    }

    /// The next evaluation: at which step, and what it takes beside what training holds.
    pub(super) fn next_eval(&self, step: f64) -> Option<(f64, f64)> {
        let height = self.eval_height?;
        let last = *self.eval_steps.last()?;
        let gaps: Vec<f64> = self.eval_steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // After the first, the next is as far away as the first was from the beginning.
        let gap = gaps.into_iter().reduce(f64::min).unwrap_or(last).max(1.0);
        let passed = ((step - last) / gap).floor().max(0.0);
        Some((last + gap * (passed + 1.0), height))
    }

    /// The job begins again: nothing is open.
    pub(super) fn born(&mut self) {
        self.open = None;
    }
}
