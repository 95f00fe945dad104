//! A whole recording in memory: raw facts, no answers.

use crate::{CgroupRow, GpuRow, HostRow, LimitHeld, Mark, ProcKey, Process, SampleRow, Tick};
use serde::{Deserialize, Serialize};

/// How forks and exits were learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The kernel's proc connector: every process, however short its life, with its exit code.
    Connector,
    /// perf task records: every process of the job, no exit codes for strangers.
    Perf,
    /// Listing /proc at each tick: processes that live longer than a tick.
    Listing,
}

/// Whether a recording is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The recorder still writes.
    Running,
    /// The recorder closed it.
    Finished,
    /// The recorder died before it could.
    CutOff,
}

/// The header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Random, unique to this run.
    pub run_id: String,
    /// What the user called it, or the program's name.
    pub name: String,
    /// The command, secrets masked.
    pub argv: Vec<String>,
    /// Its folder.
    pub cwd: String,
    /// Host name.
    pub host: String,
    /// Boot id: tells whether the recorder's pid can still mean the recorder.
    pub boot_id: String,
    /// Calendar time of tick 0, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// Version of lowtide that wrote it.
    pub lowtide: String,
    /// Kernel release.
    pub kernel: String,
    /// CPUs online: the kernel's RSS error grows with them.
    pub cpus: u32,
    /// Page size.
    pub page_bytes: u64,
    /// The recorder itself.
    pub recorder: Option<ProcKey>,
    /// The process the recording is about: the command that was started, or the pid that was watched.
    pub root: Option<ProcKey>,
    /// Whether the job was started by us (`run`) or already ran (`watch`).
    pub attached: bool,
    /// How forks and exits were learnt.
    pub source: Option<Source>,
    /// The tick asked for, in nanoseconds.
    pub interval_ns: u64,
    /// State as of the last write.
    pub state: Option<RunState>,
    /// When the recording ended.
    pub ended: Option<Tick>,
    /// The largest RSS that one process of the job ever had, by the kernel's word at the end (`ru_maxrss`): which one it
    /// was is not told. None where the job was not started by us, or was smaller than the recorder.
    pub job_peak_bytes: Option<u64>,
    /// CPU time the recorder took, in nanoseconds, as of the last write.
    pub own_cpu_ns: u64,
    /// Peak resident memory of the recorder.
    pub own_peak_bytes: u64,
    /// How long the job's memory map was held for PSS readings, in nanoseconds.
    pub stall_ns: u64,
    /// Rows lost because they could not be written in time.
    pub dropped_rows: u64,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// No samples between two moments (suspend, overload, stopped).
    Gap,
    /// The tick changed.
    Interval,
    /// A value could not be read.
    Unreadable,
    /// The kernel killed a process for memory.
    Oom,
    /// A signal was passed on to the job.
    Signal,
    /// A forked process un-shares pages its parent shared with it.
    Unsharing,
    /// Limits found, as JSON.
    Limits,
    /// The writer could not keep up or could not write.
    Store,
    /// A warning was shown.
    Warning,
    /// The job ended and left these running.
    Survivors,
    /// What the guard did: asked, stopped, kept, began again. The numbers are in `data`.
    Guard,
    /// Something else, in words.
    Note,
}

/// Something that happened once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub tick: Tick,
    /// What kind.
    pub kind: EventKind,
    /// To whom.
    pub process: Option<ProcKey>,
    /// A sentence for people.
    pub text: String,
    /// The numbers, as JSON text.
    pub data: Option<String>,
}

/// What a process held when it was scanned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanRow {
    /// When.
    pub tick: Tick,
    /// Of whom.
    pub process: ProcKey,
    /// The report as JSON (`lowtide.scan/1`), its longest lists cut.
    pub report: String,
}

/// Everything a `.tide` file holds. Rows are in the order of their ticks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The header.
    pub meta: Meta,
    /// Every process seen.
    pub processes: Vec<Process>,
    /// Samples of all processes.
    pub samples: Vec<SampleRow>,
    /// cgroups.
    pub cgroups: Vec<CgroupRow>,
    /// The machine.
    pub host: Vec<HostRow>,
    /// GPUs.
    pub gpus: Vec<GpuRow>,
    /// What the job said.
    pub marks: Vec<Mark>,
    /// What happened.
    pub events: Vec<Event>,
    /// What processes held.
    #[serde(default)]
    pub scans: Vec<ScanRow>,
    /// Limits as last seen, smallest headroom first.
    pub limits: Vec<LimitHeld>,
}
