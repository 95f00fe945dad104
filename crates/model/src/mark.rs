//! What the job said of itself: steps, epochs, evaluations, saves. Marks carry absolute numbers, so a lost one shifts nothing.

use crate::{ProcKey, Tick};
use serde::{Deserialize, Serialize};

/// What a mark is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// An optimizer step.
    Step,
    /// A pass over the data.
    Epoch,
    /// An evaluation.
    Eval,
    /// A checkpoint being written.
    Save,
    /// A model or a checkpoint being read.
    Load,
    /// A fact about the job: `extra` holds it (examples, batch, world size, versions).
    Info,
    /// Something with a name of its own: `extra` holds it as `name`.
    Custom,
}

impl MarkKind {
    /// Whether only a training loop says such a thing. Facts and names come from any process with the agent in it.
    pub const fn is_progress(self) -> bool {
        match self {
            Self::Step | Self::Epoch | Self::Eval | Self::Save => true,
            Self::Load | Self::Info | Self::Custom => false,
        }
    }

    /// The word in files, in messages and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Epoch => "epoch",
            Self::Eval => "eval",
            Self::Save => "save",
            Self::Load => "load",
            Self::Info => "info",
            Self::Custom => "custom",
        }
    }
}

/// Whether something began, ended, or happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkPhase {
    /// It began.
    Start,
    /// It ended.
    End,
    /// It happened.
    Point,
}

/// One mark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// When.
    pub tick: Tick,
    /// Who said it.
    pub process: Option<ProcKey>,
    /// What.
    pub kind: MarkKind,
    /// Start, end or point.
    pub phase: MarkPhase,
    /// The absolute number: step 120, epoch 3.
    pub number: f64,
    /// Rank in a distributed run.
    pub rank: Option<u32>,
    /// Anything else, as JSON text.
    pub extra: Option<String>,
}
