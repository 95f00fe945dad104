//! The rows of a recording: what was measured between two moments.
//!
//! A row stands for every tick since the row before it, so it holds min, max and last: thinning never hides a
//! peak or a floor. `None` means the value could not be had; the reason is in an event.

use crate::{Bytes, Limit, ProcKey, Tick};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A value over the ticks of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The smallest.
    pub min: Bytes,
    /// The largest.
    pub max: Bytes,
    /// The newest.
    pub last: Bytes,
}

impl Span {
    /// A span of one tick.
    pub const fn one(value: Bytes) -> Self {
        Self { min: value, max: value, last: value }
    }

    /// Takes in the next tick.
    pub fn push(&mut self, value: Bytes) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.last = value;
    }
}

/// Memory split by sharing, from `smaps_rollup`: dear to read, so it is there on few rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pss {
    /// Proportional set size: each shared page divided by the number of its users.
    pub pss: Bytes,
    /// The anonymous part of it, where the kernel tells (5.9 on).
    pub pss_anon: Option<Bytes>,
    /// Pages nobody else maps.
    pub private: Bytes,
    /// Pages others map too.
    pub shared: Bytes,
    /// Written private pages.
    pub private_dirty: Bytes,
    /// Written shared pages: what copy-on-write still has to copy.
    pub shared_dirty: Bytes,
}

/// One process over the ticks since its last row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleRow {
    /// Whose row.
    pub process: ProcKey,
    /// The newest tick in it.
    pub tick: Tick,
    /// How many ticks it stands for.
    pub ticks: u32,
    /// Resident memory.
    pub rss: Span,
    /// Anonymous part of it.
    pub anon: Option<Span>,
    /// File-backed part.
    pub file: Option<Bytes>,
    /// Shared-memory part.
    pub shmem: Option<Bytes>,
    /// Swapped out.
    pub swap: Option<Bytes>,
    /// Locked or pinned in place.
    pub locked: Option<Bytes>,
    /// Address space (`VmSize`): what `RLIMIT_AS` limits.
    pub size: Bytes,
    /// Threads.
    pub threads: Option<u32>,
    /// Minor faults since its birth.
    pub minor_faults: u64,
    /// Major faults since its birth.
    pub major_faults: u64,
    /// User plus system CPU time since its birth, in nanoseconds.
    pub cpu_ns: u64,
    /// The sharing split, when it was read in this row's ticks.
    pub pss: Option<Pss>,
}

/// Share of time in which tasks waited for memory (PSI).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Some task waited, per cent over 10 s.
    pub some_avg10: f64,
    /// All tasks waited, per cent over 10 s.
    pub full_avg10: f64,
    /// Total time some task waited, in microseconds.
    pub some_total_us: u64,
    /// Total time all tasks waited, in microseconds.
    pub full_total_us: u64,
}

/// Which cgroup interface a row came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupVersion {
    /// The old hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// One cgroup over the ticks since its last row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CgroupRow {
    /// Path under the controller's mount.
    pub path: Arc<str>,
    /// Interface.
    pub version: CgroupVersion,
    /// The newest tick in it.
    pub tick: Tick,
    /// How many ticks it stands for.
    pub ticks: u32,
    /// The whole charge, page cache included.
    pub usage: Span,
    /// Its own limit; `None` when hidden or unreadable.
    pub limit: Option<Limit>,
    /// Anonymous memory.
    pub anon: Option<Bytes>,
    /// Page cache.
    pub file: Option<Bytes>,
    /// tmpfs and shared memory.
    pub shmem: Option<Bytes>,
    /// Page cache the kernel takes back first.
    pub inactive_file: Option<Bytes>,
    /// Kernel memory charged to it.
    pub kernel: Option<Bytes>,
    /// Swap charged to it.
    pub swap: Option<Bytes>,
    /// OOM kills in it (and, on v2, below it) since it was made.
    pub oom_kills: Option<u64>,
    /// How often the limit was hit.
    pub limit_hits: Option<u64>,
    /// Pressure inside it.
    pub pressure: Option<Pressure>,
    /// Processes in it that are neither of the job nor lowtide itself; `None` when that could not be told.
    pub strangers: Option<u32>,
}

impl CgroupRow {
    /// Usage without what the kernel takes back at once: the number Kubernetes evicts by.
    pub fn working_set(&self) -> Bytes {
        self.usage.last.saturating_sub(self.inactive_file.unwrap_or_default())
    }
}

/// The machine over the ticks since its last row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// The newest tick in it.
    pub tick: Tick,
    /// How many ticks it stands for.
    pub ticks: u32,
    /// All memory.
    pub total: Bytes,
    /// What the kernel believes can still be had without swapping.
    pub available: Span,
    /// All swap.
    pub swap_total: Bytes,
    /// Free swap.
    pub swap_free: Bytes,
    /// OOM kills on the machine since boot, memory cgroups included.
    pub oom_kills: Option<u64>,
    /// Pressure on the machine.
    pub pressure: Option<Pressure>,
    /// Space taken in /dev/shm.
    pub dev_shm_used: Option<Bytes>,
    /// Size of /dev/shm.
    pub dev_shm_total: Option<Bytes>,
}

/// One GPU, or one process on it, at one tick.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuRow {
    /// Index as the driver counts.
    pub gpu: u32,
    /// UUID as the driver tells.
    pub uuid: String,
    /// `None` for the whole card.
    pub process: Option<ProcKey>,
    /// When.
    pub tick: Tick,
    /// Memory in use.
    pub used: Span,
    /// Memory of the card; only on rows for the whole card.
    pub total: Option<Bytes>,
}
