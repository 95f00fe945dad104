//! Everything people and programs read from lowtide, and nothing else.

mod compare;
mod console;
mod doctor;
mod ending;
mod gates;
mod guarded;
mod jobs;
mod list;
mod plot;
mod scan;
mod squeeze;
mod table;
mod verdict;

pub(crate) use compare::{compare_json, compare_text};
pub(crate) use console::Console;
pub(crate) use doctor::{Checkup, doctor_json, doctor_text};
pub(crate) use ending::Ending;
pub(crate) use gates::{gates_github, gates_json, gates_junit, gates_text};
pub(crate) use jobs::{job_line, jobs_json, jobs_text};
pub(crate) use list::{ListedRun, list_json, list_text};
pub(crate) use lowtide_verdict::both;
pub(crate) use plot::plot;
pub(crate) use scan::{Growth, scan_json, scan_text};
pub(crate) use squeeze::squeeze_text;
pub(crate) use verdict::{Page, process_words, together_text};

use lowtide_model::{LimitHeld, LimitKind};
use std::io::{ErrorKind, IsTerminal, Write};

/// Columns of the terminal that standard output is; none where it is none.
pub(crate) fn text_width() -> Option<usize> {
    let terminal = std::io::stdout().is_terminal();
    let size = terminal.then(crossterm::terminal::size)?.ok()?;
    Some(usize::from(size.0)).filter(|columns| *columns > 0)
}

/// Bytes to standard output.
pub(crate) fn bytes(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Text to standard output. A reader that has seen enough (`| head`) is no error.
pub(crate) fn say(text: &str) -> std::io::Result<()> {
    match bytes(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Text to standard error, in one write so that it stays whole between the lines of a job.
pub(crate) fn complain(text: &str) {
    // Nobody is left to be told when this fails.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Foreign text made safe for a terminal: no control characters, not longer than a line.
pub(crate) fn plain(text: &str, most: usize) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match clean.char_indices().nth(most) {
        Some((cut, _)) => format!("{}...", clean[..cut].trim_end()),
        None => clean,
    }
}

/// A limit's name.
pub(crate) fn limit_name(held: &LimitHeld) -> String {
    match &held.kind {
        LimitKind::Cgroup { path } => format!("cgroup {path}"),
        LimitKind::AddressSpace { process } => format!("address space of {}", process.pid),
        LimitKind::Host => "this machine".to_owned(),
        LimitKind::DevShm => "/dev/shm".to_owned(),
        LimitKind::Slurm => "Slurm's grant".to_owned(),
        LimitKind::Asked => "--limit".to_owned(),
    }
}
