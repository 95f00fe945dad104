//! The job at one tick, as a screen or another process wants to see it.

use lowtide_model::{Bytes, LimitHeld, ProcKey, Role, Tick};
use serde::{Deserialize, Serialize};

/// Memory of the whole tree, shared pages counted once, with how wrong it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// Best estimate.
    pub bytes: Bytes,
    /// Not below this.
    pub low_bytes: Bytes,
    /// Not above this.
    pub high_bytes: Bytes,
    /// The plain sum of RSS, which counts shared pages once for each user.
    pub rss_sum_bytes: Bytes,
}

/// All processes of one role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoleLine {
    /// Which role.
    pub role: Role,
    /// How many live.
    pub count: u32,
    /// Their RSS together.
    pub rss_bytes: Bytes,
    /// Change over the last minute or so, in bytes a minute.
    pub bytes_per_minute: Option<f64>,
}

/// One living process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessLine {
    /// Identity.
    pub key: ProcKey,
    /// Who started it.
    pub parent: Option<ProcKey>,
    /// What it is for.
    pub role: Role,
    /// Why we think so.
    pub reason: String,
    /// Its command, short.
    pub command: String,
    /// Resident memory.
    pub rss_bytes: Bytes,
    /// Anonymous part.
    pub anon_bytes: Option<Bytes>,
    /// Proportional size when last read.
    pub pss_bytes: Option<Bytes>,
    /// Swapped out.
    pub swap_bytes: Option<Bytes>,
    /// Threads.
    pub threads: Option<u32>,
}

/// What lowtide itself costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Per cent of one core since the start.
    pub cpu_percent: f64,
    /// Resident memory now.
    pub rss_bytes: Bytes,
    /// How long the job's memory map was held for sharing readings.
    pub stall_ms: f64,
}

/// One point of the tree's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Seconds since the start.
    pub seconds: f64,
    /// Lowest total around this moment.
    pub low_bytes: Bytes,
    /// Highest total around this moment.
    pub high_bytes: Bytes,
}

/// What the job does at this moment, as its marks say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Between the others.
    #[default]
    Training,
    /// Inside an evaluation.
    Eval,
    /// Writing a checkpoint.
    Save,
    /// Reading a model or a checkpoint.
    Load,
}

/// How far the job is, as its marks say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Newest finished step.
    pub step: Option<f64>,
    /// Epoch as a fraction.
    pub epoch: Option<f64>,
    /// What it does now.
    pub phase: Phase,
}

/// The job at one tick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Which run.
    pub run_id: String,
    /// Its name.
    pub name: String,
    /// The command, short.
    pub command: String,
    /// Path of the recording.
    pub recording: String,
    /// This tick.
    pub tick: Tick,
    /// Number of this tick.
    pub tick_number: u64,
    /// Everything up to this tick survives the death of the recorder.
    pub durable: Option<Tick>,
    /// The tick's length now, in nanoseconds.
    pub interval_ns: u64,
    /// Whether the job still runs.
    pub running: bool,
    /// The whole tree.
    pub total: Total,
    /// Change over the last minute or so, in bytes a minute.
    pub bytes_per_minute: Option<f64>,
    /// Limits found, smallest headroom first.
    pub limits: Vec<LimitHeld>,
    /// By role, largest first.
    pub roles: Vec<RoleLine>,
    /// By process, largest first.
    pub processes: Vec<ProcessLine>,
    /// Processes seen so far, the short-lived ones too.
    pub processes_seen: u64,
    /// How far the job is; nothing where it sends no marks.
    #[serde(default)]
    pub progress: Option<Progress>,
    /// Processes with lowtide's agent in them.
    #[serde(default)]
    pub agents: u32,
    /// The verdict so far, one sentence.
    pub headline: Option<String>,
    /// The newest warnings.
    pub warnings: Vec<String>,
    /// Our own cost.
    pub cost: Cost,
}
