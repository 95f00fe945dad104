//! The facts of each stop, for the recording and for the report at the end.

use super::Kept;
use serde::Serialize;

/// A way to stop a job, the gentlest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// A flag that the job looks at after each step.
    Flag,
    /// A signal on which it saves.
    Signal,
    /// The end, just before the kernel's.
    Kill,
    /// The same in a save that hangs, or takes more than saves did.
    Hung,
    /// The end, because it took longer to stop than the user allows.
    Overdue,
}

impl Rung {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Flag => "it was asked to save and stop",
            Self::Signal => "it was signalled",
            Self::Kill => "it was ended just before the kernel would have",
            Self::Hung => {
                "it was ended in its save, which took more and more memory, just before the kernel would have"
            }
            Self::Overdue => "it was ended because it did not stop within --stop-within",
        }
    }
}

/// What beginning again does for a job that memory stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// It begins with little memory: as far as anyone knows, it goes on for as long again.
    #[default]
    Helps,
    /// It is inside its first pass over the data: what grows may be a cache that does not fit, and would fill up again.
    MayRefill,
    /// It is such a cache.
    Refills,
}

/// One stop of the job.
#[derive(Clone, Debug, Serialize)]
pub struct Stop {
    /// Why, in words.
    pub because: String,
    /// How; nothing when the kernel was quicker.
    pub rung: Option<Rung>,
    /// When it was asked, in seconds since the recording began.
    pub asked_seconds: Option<f64>,
    /// How long after that it took the request up, saved, and ended.
    pub taken_up_after_seconds: Option<f64>,
    /// How long after that it was called overdue, if it was.
    pub overdue_after_seconds: Option<f64>,
    /// See above; nothing when it did not say.
    pub saved_after_seconds: Option<f64>,
    /// See above.
    pub ended_after_seconds: Option<f64>,
    /// The newest step it had finished.
    pub step: Option<f64>,
    /// What became of the save, in words, if it failed.
    pub save_failed: Option<String>,
    /// What it can begin from again.
    pub kept: Option<Kept>,
    /// What beginning again does for it.
    pub again: Again,
    /// Whether it was started again.
    pub began_again: bool,
    /// Why it was not, in words.
    pub over_because: Option<String>,
    /// Steps that the next life made once more.
    pub repeated_steps: Option<f64>,
}

/// What the guard did in a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Guarded {
    /// Every stop.
    pub stops: Vec<Stop>,
    /// How often it was started again, chunks included.
    pub restarts: u32,
    /// Set when the job was stopped in order to begin again and did not: from what it can.
    pub resumable: Option<Kept>,
    /// ... and what that does for it.
    pub again: Again,
}
