//! Who a process is: pids return, so identity is the pid with the moment of its start.

use crate::Tick;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One process, for ever: the pid and its start in clock ticks since boot (field 22 of `/proc/PID/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcKey {
    /// The pid as lowtide sees it.
    pub pid: u32,
    /// Start time in clock ticks since boot. 0 when the process was gone before it could be read.
    pub start_ticks: u64,
}

impl fmt::Display for ProcKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pid, self.start_ticks)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is gone; how is not known.
    Unknown,
}

/// What is known of a process besides its samples. Raw facts: the role is worked out from them on replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Identity.
    pub key: ProcKey,
    /// The process that started it, also after that one died.
    pub parent: Option<ProcKey>,
    /// When it began (as told by an event) or was first seen.
    pub born: Tick,
    /// When it ended, if it did while we watched.
    pub died: Option<Tick>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// Whether it ever called exec after its fork. Workers made by fork alone carry their parent's argv.
    pub execed: bool,
    /// The kernel's short name.
    pub comm: String,
    /// Arguments, lossily as text, secrets masked.
    pub argv: Vec<String>,
    /// The allow-listed environment that decides memory.
    pub env: Vec<(String, String)>,
    /// Path of its memory cgroup, as seen from our mount.
    pub cgroup: Option<String>,
    /// The largest RSS the kernel saw (`VmHWM` or `ru_maxrss`), where it could be had.
    pub peak_rss: Option<crate::Bytes>,
}

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Starts another program and waits: `uv run`, `sh -c`, `torchrun`.
    Wrapper,
    /// Does the work whose memory matters.
    Trainer,
    /// Forked from a trainer to feed it.
    LoaderWorker,
    /// Compiles kernels for a trainer.
    CompileWorker,
    /// Anything else the job started.
    Helper,
    /// Not enough is known.
    Unknown,
}

impl Role {
    /// The word people read.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Wrapper => "wrapper",
            Self::Trainer => "trainer",
            Self::LoaderWorker => "loader worker",
            Self::CompileWorker => "compile worker",
            Self::Helper => "helper",
            Self::Unknown => "unknown",
        }
    }
}
