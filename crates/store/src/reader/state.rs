//! Tells whether a recorder still writes: finished by its own word, else by whether the recorder lives.

use super::tables::Progress;
use lowtide_model::{Meta, ProcKey, RunState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the recorder cannot be looked up, a file this fresh counts as being written.
const FRESH: Duration = Duration::from_mins(2);

/// The header's field for the recorder's pid namespace: a pid means nothing outside it.
pub(crate) const PID_NAMESPACE: &str = "pid_namespace";

/// The header's field for where the original of a copied recording lies.
pub(crate) const SCRATCH: &str = "scratch";

/// The state as of now.
pub(crate) fn now(meta: &Meta, namespace: Option<&str>, progress: &Progress) -> RunState {
    match meta.state {
        Some(RunState::Finished) => RunState::Finished,
        Some(RunState::CutOff) => RunState::CutOff,
        Some(RunState::Running) | None => match recorder_lives(meta, namespace) {
            Some(true) => RunState::Running,
            None if fresh(progress) => RunState::Running,
            Some(false) | None => RunState::CutOff,
        },
    }
}

/// Whether the recorder lives; `None` where that can't be told (another machine, another pid namespace).
fn recorder_lives(meta: &Meta, namespace: Option<&str>) -> Option<bool> {
    let recorder = meta.recorder?;
    if !same_boot(meta) || namespace.is_some_and(|theirs| Some(theirs) != own_namespace().as_deref()) {
        return None;
    }
    Some(start_ticks(recorder.pid) == Some(recorder.start_ticks))
}

/// Whether the recording was begun on this machine, as it runs now.
pub(crate) fn same_boot(meta: &Meta) -> bool {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    boot.is_ok_and(|boot| boot.trim() == meta.boot_id.trim())
}

/// Our own pid namespace, as the kernel names it.
pub(crate) fn own_namespace() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/pid").ok()?.to_string_lossy().into_owned())
}

/// Field 22 of `/proc/PID/stat`, counted after the command name, which may hold anything. A zombie no longer writes.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = String::from_utf8_lossy(stat.get(after..)?);
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" { None } else { fields.nth(18)?.parse().ok() }
}

fn fresh(progress: &Progress) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let written = progress.written_unix_ns.and_then(|at| u64::try_from(at).ok()).map(Duration::from_nanos);
    // A clock that is a little behind the writer's must not make a living run dead.
    written.is_some_and(|at| now.saturating_sub(at) < FRESH && at.saturating_sub(now) < FRESH)
}

/// The key of the calling process, as a recorder writes it.
pub fn own_key() -> Option<ProcKey> {
    let pid = std::process::id();
    Some(ProcKey { pid, start_ticks: start_ticks(pid)? })
}
