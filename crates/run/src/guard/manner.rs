//! How a job stops when it is asked, as it says of itself in its marks: who honours a request, when, and on which signal.

use lowtide_model::{Mark, MarkKind};
use nix::sys::signal::Signal;
use serde_json::{Map, Value};
use std::str::FromStr;

/// From choosing a step for all ranks until all of them know of it, on a busy machine.
const TELLING_SECONDS: f64 = 0.15;
/// A rank is at most one step ahead of another, and in the middle of one.
const STEPS_AHEAD: u64 = 2;
/// More steps than this are never looked ahead, however quick they are.
const MOST_STEPS_AHEAD: f64 = 1000.0;

/// What the job says of how it stops.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Manner {
    by: Option<By>,
    /// Only at the end of a pass over the data.
    every_pass: bool,
    pass_steps: Option<f64>,
    /// A signal on which it is known to save.
    pub(crate) saves_on: Option<Signal>,
}

/// Who honours a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Trainer,
    Lightning,
    Keras,
    Accelerate,
    OwnLoop,
}

impl Manner {
    /// Takes what a mark says of it.
    pub(crate) fn hear(&mut self, mark: &Mark) {
        let extra = mark.extra.as_deref().filter(|_| mark.kind == MarkKind::Info);
        let Some(facts) = extra.and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok()) else {
            return;
        };
        let text = |key: &str| facts.get(key).and_then(Value::as_str);
        if let Some(by) = text("stop").and_then(By::of) {
            self.by = Some(by);
            self.every_pass = text("stop_every") == Some("epoch");
        }
        if let Some(signal) = text("saves_on").and_then(|name| Signal::from_str(name).ok()) {
            self.saves_on = Some(signal);
        }
        let steps = facts.get("epoch_steps").and_then(Value::as_f64);
        self.pass_steps = steps.filter(|steps| *steps >= 1.0).or(self.pass_steps);
    }

    /// How many steps may go by until a request is honoured, when a step takes so long.
    pub(crate) fn stop_steps(&self, several_ranks: bool, step_seconds: Option<f64>) -> f64 {
        if self.every_pass {
            self.pass_steps.unwrap_or(1.0)
        } else if several_ranks {
            // The one that is under way counts as well.
            steps_ahead(step_seconds) as f64 + 1.0
        } else {
            1.0
        }
    }

    /// How many steps a pass over the data has, if it says so.
    pub(crate) const fn pass_steps(&self) -> Option<f64> {
        self.pass_steps
    }

    /// Whether it is one of those that mark every step by themselves.
    pub(crate) fn marks_steps(&self) -> bool {
        matches!(self.by, Some(By::Trainer | By::Lightning | By::Keras))
    }

    /// In words, for one process.
    pub(crate) fn words(&self) -> &'static str {
        match self.by {
            Some(By::Trainer) => "the Trainer saves and stops when asked",
            Some(By::Lightning) => "Lightning saves and stops when asked",
            Some(By::Keras) if self.every_pass => {
                "Keras saves and stops when asked, at the end of a pass over the data"
            }
            Some(By::Keras) => "Keras saves and stops when asked",
            Some(By::Accelerate) => "the loop is told to stop by accelerate's trigger",
            Some(By::OwnLoop) | None => "this job saves and stops when asked",
        }
    }
}

/// How far ahead of the first rank the step is at which all of them stop.
pub(crate) fn steps_ahead(step_seconds: Option<f64>) -> u64 {
    let more = step_seconds.filter(|seconds| *seconds > 0.0).map_or(0.0, |seconds| TELLING_SECONDS / seconds);
    STEPS_AHEAD + more.ceil().min(MOST_STEPS_AHEAD) as u64
}

impl By {
    fn of(name: &str) -> Option<Self> {
        match name {
            "trainer" => Some(Self::Trainer),
            "lightning" => Some(Self::Lightning),
            "keras" => Some(Self::Keras),
            "accelerate" => Some(Self::Accelerate),
            "own loop" => Some(Self::OwnLoop),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{MarkPhase, Tick};

    fn told(texts: &[&str]) -> Manner {
        let mut manner = Manner::default();
        for text in texts {
            let (kind, phase) = (MarkKind::Info, MarkPhase::Point);
            let extra = Some((*text).to_owned());
            manner.hear(&Mark { tick: Tick(1), process: None, kind, phase, number: 0.0, rank: None, extra });
        }
        manner
    }

    #[test]
    fn a_request_takes_a_step_or_a_pass_or_as_many_as_ranks_need_to_hear_of_it() {
        assert_eq!(told(&[]).stop_steps(false, None) as u64, 1);
        let keras = told(&[r#"{"epoch_steps":13}"#, r#"{"stop":"keras","stop_every":"epoch"}"#]);
        assert_eq!(keras.stop_steps(false, Some(0.1)) as u64, 13);
        assert!(keras.words().contains("end of a pass"));
        let trainer = told(&[r#"{"stop":"trainer","saves_on":"SIGTERM"}"#]);
        assert_eq!(trainer.saves_on, Some(Signal::SIGTERM));
        assert_eq!(trainer.stop_steps(true, None) as u64, 3);
        assert_eq!(trainer.stop_steps(true, Some(60.0)) as u64, 4);
        assert_eq!(trainer.stop_steps(true, Some(0.05)) as u64, 6);
        assert_eq!(steps_ahead(Some(1e-12)), 1002);
    }

    #[test]
    fn nonsense_is_not_heard() {
        let odd = told(&["", "7", r#"{"stop":"nobody"}"#, r#"{"saves_on":"TERM"}"#, r#"{"epoch_steps":-1}"#]);
        assert_eq!(odd, Manner::default());
    }
}
