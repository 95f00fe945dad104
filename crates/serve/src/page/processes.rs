//! The processes of a run as a table, the largest first, and how the whole ended.

use lowtide_model::{Bytes, Exit, ProcKey, Process, Recording, Role};
use lowtide_verdict::RoleFound;
use serde::Serialize;
use std::collections::BTreeMap;

/// Rows of the table.
const MOST_ROWS: usize = 40;
/// Letters of a command; the rest is in the recording.
const LONGEST_COMMAND: usize = 300;

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProcessRow {
    pub(crate) pid: u32,
    pub(crate) role: Role,
    /// Why it is taken for that.
    pub(crate) reason: String,
    pub(crate) command: String,
    pub(crate) born_seconds: f64,
    pub(crate) died_seconds: Option<f64>,
    pub(crate) exit: Option<String>,
    pub(crate) start_bytes: Bytes,
    pub(crate) end_bytes: Bytes,
    pub(crate) peak_bytes: Bytes,
    pub(crate) threads: Option<u32>,
}

#[derive(Clone, Copy)]
struct Levels {
    start: Bytes,
    end: Bytes,
    peak: Bytes,
    threads: Option<u32>,
}

/// The largest processes and how many are left out.
pub(crate) fn rows(recording: &Recording, roles: &[RoleFound]) -> (Vec<ProcessRow>, usize) {
    let mut levels: BTreeMap<ProcKey, Levels> = BTreeMap::new();
    for row in &recording.samples {
        let first = Levels { start: row.rss.last, end: row.rss.last, peak: row.rss.max, threads: None };
        let known = levels.entry(row.process).or_insert(first);
        known.end = row.rss.last;
        known.peak = known.peak.max(row.rss.max);
        known.threads = row.threads.max(known.threads);
    }
    let roles: BTreeMap<ProcKey, &RoleFound> = roles.iter().map(|role| (role.process, role)).collect();
    let mut rows: Vec<ProcessRow> = recording
        .processes
        .iter()
        .filter_map(|process| Some(row(process, levels.get(&process.key)?, roles.get(&process.key).copied())))
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.peak_bytes), row.pid));
    rows.truncate(MOST_ROWS);
    let left_out = recording.processes.len() - rows.len();
    (rows, left_out)
}

fn row(process: &Process, levels: &Levels, role: Option<&RoleFound>) -> ProcessRow {
    let command = if process.argv.is_empty() { process.comm.clone() } else { process.argv.join(" ") };
    ProcessRow {
        pid: process.key.pid,
        role: role.map_or(Role::Unknown, |role| role.role),
        reason: role.map(|role| role.reason.clone()).unwrap_or_default(),
        command: command.chars().take(LONGEST_COMMAND).collect(),
        born_seconds: process.born.seconds(),
        died_seconds: process.died.map(lowtide_model::Tick::seconds),
        exit: process.exit.map(exit_words),
        start_bytes: levels.start,
        end_bytes: levels.end,
        peak_bytes: levels.peak,
        threads: levels.threads,
    }
}

fn exit_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Unknown => "ended, how is not known".to_owned(),
    }
}

/// How the job's first process ended.
pub(crate) fn ending(recording: &Recording) -> Option<String> {
    let root = recording.meta.root?;
    recording.processes.iter().find(|process| process.key == root)?.exit.map(exit_words)
}
