//! Scans: what a live process holds, read by a helper process that can hurt nobody.
//!
//! Why a helper: an index of millions of objects takes memory, and scanning a trainer in a nearly full cgroup must never
//! be what kills it. The helper is nice, the first to go when memory runs out, capped, and refused where there is no
//! room. It is started by `lowtide scan`, or by the recorder, which hands it open descriptors where only an ancestor of
//! the job may open them. Not here: what the bytes mean (crate `scan`), how a report looks.

mod budget;
mod helper;
mod room;
mod scanner;
mod target;

pub(crate) use budget::{Budget, Occasion};
pub use helper::help;
pub use scanner::{End, Opened, Order, ScanError, Scanner};

use lowtide_model::ProcKey;
use lowtide_scan::{Scan, TypeUse};
use serde::{Deserialize, Serialize};

/// Types kept in a report: those that hold most. A torch process has some 8,000, most with one object or none.
const MOST_TYPES: usize = 2000;
/// Rows of each list that goes into a recording.
const KEPT_ROWS: usize = 40;

/// What a helper is asked to do: JSON on its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) pid: u32,
    /// Open descriptors (maps, pagemap, mem) that were handed over; without them it opens its own.
    pub(crate) doors: Option<[i32; 3]>,
    /// Where the stacks of its threads are in use, for those who may know.
    pub(crate) stack_pointers: Vec<u64>,
    /// Types of an earlier scan.
    pub(crate) before: Option<Vec<TypeUse>>,
    /// What is looked for.
    #[serde(default)]
    pub(crate) depth: Depth,
    /// CPU time it may take, in milliseconds.
    pub(crate) most_cpu_ms: u64,
    /// Whether to hold the process still.
    pub(crate) stop: bool,
}

/// How much a scan looks for: each costs more than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// What is there, by type: enough for a scan that others are held against.
    Types,
    /// Also who holds what grew.
    Holders,
    /// Also the containers that people suspect.
    #[default]
    Everything,
}

/// What a process held: a scan, with whose it is and when it was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Which process.
    pub process: ProcKey,
    /// Its command, short.
    pub command: String,
    /// When, in nanoseconds since 1970.
    pub taken_unix_ns: i64,
    /// For how long the process was held still, in milliseconds.
    #[serde(default)]
    pub stopped_ms: f64,
    /// What it held.
    #[serde(flatten)]
    pub scan: Scan,
}

impl Report {
    /// As it goes into a recording: the longest lists cut.
    pub fn kept(mut self) -> String {
        self.scan.types.truncate(KEPT_ROWS);
        // For a later scan, and those of a recording are made by one that still has them.
        self.scan.types.iter_mut().for_each(|row| row.seen = lowtide_scan::Seen::default());
        self.scan.mappings.truncate(KEPT_ROWS);
        self.scan.tensors.truncate(KEPT_ROWS);
        self.scan.native.arenas.truncate(KEPT_ROWS);
        self.scan.native.unowned_sizes.truncate(KEPT_ROWS);
        serde_json::to_string(&self).unwrap_or_default()
    }
}

/// What a helper answers: one JSON line on its standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Report(Box<Report>),
    Refused(Refusal),
}

/// Why a process is not scanned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// There is no such process, or it ended meanwhile.
    Gone,
    /// The kernel does not let this user read its memory.
    Denied,
    /// The kernel has no such file.
    Unsupported,
    /// It could not be held still.
    NotStopped,
    /// Too little memory is left here.
    NoRoom {
        /// What is left.
        left_bytes: u64,
        /// What must be left.
        needed_bytes: u64,
    },
}
