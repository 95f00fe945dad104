//! One memory curve with what is known about the run: the form in which foreign data enters.

use crate::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the x values count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Training steps.
    Step,
    /// Seconds.
    Seconds,
    /// Just the number of the sample.
    #[default]
    Sample,
    /// Epochs.
    Epoch,
}

/// What the y values measure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Resident memory of one process.
    #[default]
    Rss,
    /// The largest resident memory so far: it can't fall.
    MaxRss,
    /// Anonymous memory.
    Anon,
    /// GPU memory.
    Gpu,
    /// Sum of proportional sizes over a tree.
    PssTree,
    /// A cgroup's charge.
    Cgroup,
    /// The whole machine.
    Host,
    /// Something else, by name.
    Other(String),
}

/// What a run knows of itself. All of it optional: marks or flags fill it in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Examples in the data set.
    pub examples: Option<f64>,
    /// Examples a micro-batch.
    pub batch: Option<f64>,
    /// Micro-batches a step.
    pub accum: Option<f64>,
    /// Processes that share the data set.
    pub world_size: Option<f64>,
    /// Passes over the data that are planned.
    pub epochs: Option<f64>,
    /// Steps in one pass.
    pub epoch_steps: Option<f64>,
    /// Seconds of one pass.
    pub epoch_seconds: Option<f64>,
    /// Where memory ends.
    pub limit: Option<Bytes>,
    /// What said so.
    pub limit_from: Option<String>,
    /// Threads of the process.
    pub threads: Option<f64>,
    /// Restarts inside the curve.
    pub restarts: Option<f64>,
    /// They came at these x, where that is known.
    pub restart_x: Vec<f64>,
    /// Evaluation comes every so many x.
    pub validation_every: Option<f64>,
    /// Evaluations began at these x.
    pub validation_x: Vec<f64>,
    /// Checkpoints were written at these x.
    pub save_x: Vec<f64>,
    /// Something was logged at these x.
    pub log_x: Vec<f64>,
    /// A new shard of the data was opened at these x.
    pub shard_x: Vec<f64>,
    /// A rollout began at these x.
    pub rollout_x: Vec<f64>,
    /// Steps ended at these x, where x does not count them.
    pub step_x: Vec<f64>,
}

impl Context {
    /// Examples one step consumes over all ranks, if the batch is known.
    pub fn examples_per_step(&self) -> Option<f64> {
        let per_step = self.batch? * self.accum.unwrap_or(1.0) * self.world_size.unwrap_or(1.0);
        (per_step.is_finite() && per_step > 0.0).then_some(per_step)
    }
}

/// A memory curve: y in bytes over x, with side curves of the same length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Where it came from, for messages.
    pub name: String,
    /// What x counts.
    pub axis: Axis,
    /// Positions. Foreign: may be unsorted, repeated, NaN.
    pub x: Vec<f64>,
    /// Bytes. Foreign: may be NaN, negative, huge.
    pub y: Vec<f64>,
    /// What y measures.
    pub metric: Metric,
    /// Other curves over the same x (`anon`, `file`, `tensor_count`, `workers`, ...): sizes in bytes, counts as they are.
    pub series: BTreeMap<String, Vec<f64>>,
    /// What the run knows of itself.
    pub context: Context,
    /// What was guessed while reading it, to be said to the user.
    pub notes: Vec<String>,
    /// Only changes of y are true, not how high it stands: no limit can be held against it.
    #[serde(default)]
    pub no_level: bool,
}
