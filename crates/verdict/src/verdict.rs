//! The answer as data: what `--format json` prints and every other crate reads.
//!
//! The JSON is documented by docs/verdict.schema.json; the tests hold this file against it. Not here: how an answer
//! is found (see `decide`), nor its words (see `words`).

use crate::series::Point;
use lowtide_model::{Axis, ProcKey, Role};
use serde::{Deserialize, Serialize};

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The floor rises without a bound in sight.
    Leak,
    /// Growth follows new examples and ends with the first pass or at a cap.
    CacheFill,
    /// Grew, then settled, not tied to the data.
    WarmUp,
    /// Freed by the program, kept by the allocator.
    AllocatorKept,
    /// Forked workers copy pages they shared.
    WorkerCopies,
    /// The floor is flat; peaks come and go.
    Spikes,
    /// File pages the kernel takes back.
    PageCache,
    /// Nothing to see, within the bound that was tested.
    Steady,
    /// Several explanations still fit.
    TooEarly,
}

/// The four answers that lead to different actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Grows for ever.
    Leak,
    /// Grew or grows, and ends.
    Bounded,
    /// Does not grow.
    Flat,
    /// Can't be told yet.
    TooEarly,
}

impl Kind {
    /// All kinds, in the order of the documentation.
    pub const ALL: [Self; 9] = [
        Self::Leak,
        Self::CacheFill,
        Self::WarmUp,
        Self::AllocatorKept,
        Self::WorkerCopies,
        Self::Spikes,
        Self::PageCache,
        Self::Steady,
        Self::TooEarly,
    ];

    /// The group it belongs to.
    pub const fn group(self) -> Group {
        match self {
            Self::Leak => Group::Leak,
            Self::CacheFill | Self::WarmUp | Self::AllocatorKept | Self::WorkerCopies => Group::Bounded,
            Self::Spikes | Self::PageCache | Self::Steady => Group::Flat,
            Self::TooEarly => Group::TooEarly,
        }
    }

    /// The word in JSON and on screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Leak => "leak",
            Self::CacheFill => "cache-fill",
            Self::WarmUp => "warm-up",
            Self::AllocatorKept => "allocator-kept",
            Self::WorkerCopies => "worker-copies",
            Self::Spikes => "spikes",
            Self::PageCache => "page-cache",
            Self::Steady => "steady",
            Self::TooEarly => "too-early",
        }
    }
}

/// The process an answer is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessNamed {
    /// Identity.
    pub key: ProcKey,
    /// What it is for.
    pub role: Role,
    /// Its arguments, secrets masked.
    pub argv: Vec<String>,
    /// Others that are told with it: the answer is about all of them together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<ProcKey>,
}

impl ProcessNamed {
    /// Who that is, in words: `trainer 4711`, or `4 loader workers together`.
    pub fn who(&self) -> String {
        let role = self.role.word();
        match self.with.len() {
            0 => format!("{role} {}", self.key.pid),
            others => format!("{} {role}s together", others + 1),
        }
    }
}

/// The floor in numbers. Rates are for the part that grows, or for the whole curve if nothing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FloorFacts {
    /// Level at the start.
    pub start_bytes: f64,
    /// Level at the end.
    pub end_bytes: f64,
    /// Growth per step, or per second or sample where steps are not known.
    pub bytes_per_step: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Where growth ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// By step (or by sample, where that is all there is).
    pub step: Option<f64>,
    /// By seconds since the start.
    pub seconds: Option<f64>,
}

/// Whether it fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fits {
    /// With room to spare.
    Fits,
    /// Within a tenth of the limit.
    Tight,
    /// It will not.
    Exceeds,
    /// No limit is known, or nobody can say what will be needed.
    #[default]
    Unknown,
}

/// Whether it fits, with the numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The answer.
    pub is: Fits,
    /// What will be needed at most, by the winning explanation or by the worst one still standing. `None` when it
    /// grows without end.
    pub needs_bytes: Option<f64>,
    /// Where memory ends.
    pub limit_bytes: Option<f64>,
    /// What said so.
    pub limit_from: Option<String>,
    /// That it happened: a process died of it, in words. Not part of the JSON; the headline holds it.
    #[serde(skip)]
    pub death: Option<String>,
}

/// When the limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Which limit.
    pub limit_bytes: f64,
    /// At which step, if steps are known.
    pub at_step: Option<f64>,
    /// In how many seconds, if time is known.
    pub in_seconds: Option<f64>,
    /// Earliest of its 95 % interval, in steps (or seconds from now, where there are no steps).
    pub low: f64,
    /// Latest.
    pub high: f64,
}

/// One explanation that still has weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// What it would be.
    pub kind: Kind,
    /// Its share of the evidence.
    pub weight: f64,
    /// What it says will come.
    pub predicts: String,
}

/// Something it is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuledOut {
    /// What it is not.
    pub kind: Kind,
    /// Why not.
    pub because: String,
}

/// The answer for one curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Always `lowtide.verdict/1`.
    pub schema: String,
    /// What was judged.
    pub file: Option<String>,
    /// What it is.
    pub verdict: Kind,
    /// Its group.
    pub group: Group,
    /// How sure: of the answers given with 0.9, nine in ten are right.
    pub confidence: f64,
    /// One sentence.
    pub headline: String,
    /// Which process.
    pub process: Option<ProcessNamed>,
    /// The floor.
    pub floor: FloorFacts,
    /// Where growth ended.
    pub settled_at: Option<Settled>,
    /// What each example keeps.
    pub bytes_per_example: Option<f64>,
    /// The line of evidence that says what other data sets need. Not part of the JSON by itself.
    #[serde(skip)]
    pub matters: Option<String>,
    /// Whether it fits.
    pub outcome: Outcome,
    /// When the limit is reached.
    pub forecast: Option<Forecast>,
    /// When two explanations part.
    pub decided_at_step: Option<f64>,
    /// What still has weight.
    pub explanations: Vec<Explanation>,
    /// Lines that each hold a number.
    pub evidence: Vec<String>,
    /// What it is not.
    pub ruled_out: Vec<RuledOut>,
    /// What to do, the first thing first.
    pub advice: Vec<String>,
    /// The test that could prove it wrong.
    pub disprove: String,
    /// What will still be taken beyond the highest peak so far, where that has an end. Not part of the JSON; what is needed holds it.
    #[serde(skip)]
    pub ahead_bytes: f64,
    /// The arithmetic of the fill, for other data-set sizes. Not part of the JSON.
    #[serde(skip)]
    pub fill: Option<crate::budget::Fill>,
    /// Whether it ends inside a first pass over the data whose length is known. Not part of the JSON; the evidence says it.
    #[serde(skip)]
    pub in_first_pass: bool,
    /// What growth or a saw-tooth lines up with. Not part of the JSON; the evidence says it.
    #[serde(skip)]
    pub follows: Option<&'static str>,
    /// What to draw: the curve that was judged and its floor. Not part of the JSON.
    #[serde(skip)]
    pub drawing: Drawing,
    /// The whole reasoning, for `--why`. Not part of the JSON.
    #[serde(skip)]
    pub why: Vec<String>,
}

/// What a picture of an answer shows, all in the curve's own x.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawing {
    /// What x counts.
    pub axis: Axis,
    /// The curve as it was judged. Empty in a recorder: nobody draws there.
    pub curve: Vec<Point>,
    /// Its floor.
    pub floor: Vec<(f64, f64)>,
    /// Where growth ended.
    pub knee: Option<f64>,
    /// Where the first pass over the data ends.
    pub pass: Option<f64>,
    /// What each explanation that still stands says will come.
    pub futures: Vec<(Kind, Vec<(f64, f64)>)>,
}

/// The name of this JSON's form.
pub const SCHEMA: &str = "lowtide.verdict/1";
