//! Limits, each held against the thing it limits.

use crate::{Bytes, ProcKey};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A limit that is there or known not to be. A limit that cannot be seen is a missing `Limit`, not an endless one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// There is none.
    Unlimited,
    /// At this size.
    At(Bytes),
}

/// Where a limit comes from, which says what it is held against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum LimitKind {
    /// A cgroup's limit, against its whole charge, others included.
    Cgroup {
        /// Which one.
        path: Arc<str>,
    },
    /// `RLIMIT_AS`, against that process's `VmSize`.
    AddressSpace {
        /// Which one.
        process: ProcKey,
    },
    /// The machine's memory, against what is available.
    Host,
    /// The size of /dev/shm, against what lies in it.
    DevShm,
    /// What Slurm granted, against the job step.
    Slurm,
    /// What the user said with `--limit`.
    Asked,
}

/// A limit with how much of it is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitHeld {
    /// Whose limit.
    pub kind: LimitKind,
    /// Where it is.
    pub limit: Bytes,
    /// How much of it is taken now, without what the kernel takes back at once.
    pub used: Bytes,
}

impl LimitHeld {
    /// What is left.
    pub fn headroom(&self) -> Bytes {
        self.limit.saturating_sub(self.used)
    }
}
