//! The doctor's words.

use super::limit_name;
use super::table::{Align, Table};
use lowtide_model::LimitHeld;
use lowtide_probe::Status;
use lowtide_probe::abilities::Ability;
use lowtide_probe::host::Facts;
use nix::sys::signal::Signal;
use std::fmt::Write as _;

/// What the doctor found.
pub(crate) struct Checkup {
    pub(crate) facts: Facts,
    pub(crate) abilities: Vec<Ability>,
    pub(crate) limits: Vec<LimitHeld>,
    pub(crate) unknown: Vec<String>,
    pub(crate) process: Option<u32>,
    pub(crate) signals: Option<Status>,
}

/// Signals a job may catch to save its work.
const SAVING: [Signal; 5] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGHUP];

impl Checkup {
    fn caught(&self) -> Option<Vec<&'static str>> {
        let status = self.signals?;
        let caught = |signal: &Signal| status.catches(*signal as i32) == Some(true);
        status.caught_signals?;
        Some(SAVING.iter().filter(|signal| caught(signal)).map(|signal| signal.as_str()).collect())
    }
}

pub(crate) fn doctor_text(checkup: &Checkup) -> String {
    let facts = &checkup.facts;
    let page = facts.page_bytes;
    let mut text =
        format!("{}: Linux {}, {} CPUs, pages of {page} bytes\n\n", facts.name, facts.kernel, facts.cpus);
    let missing = checkup.abilities.iter().filter(|ability| !ability.is_there()).count();
    let _ = writeln!(
        text,
        "What can be read here ({} of {}):",
        checkup.abilities.len() - missing,
        checkup.abilities.len()
    );
    for ability in &checkup.abilities {
        let word = if ability.is_there() { "yes" } else { "NO" };
        let _ = writeln!(text, "  {word:<4}{:<16} {}", ability.name, ability.detail);
        if let Some(advice) = ability.advice.filter(|_| !ability.is_there()) {
            let _ = writeln!(text, "      to do: {advice}");
        }
    }
    let whose =
        checkup.process.map_or_else(|| "a job started here".to_owned(), |pid| format!("process {pid}"));
    let _ = writeln!(text, "\nLimits for {whose}, the smallest headroom first:");
    let right = Align::Right;
    let mut table = Table::new(&[("what", Align::Left), ("limit", right), ("taken", right), ("left", right)]);
    for held in &checkup.limits {
        let sizes = [held.limit, held.used, held.headroom()].map(|size| size.to_string());
        table.row(std::iter::once(limit_name(held)).chain(sizes).collect());
    }
    text.push_str(&table.text());
    for unknown in &checkup.unknown {
        let _ = writeln!(text, "  unknown: {unknown}");
    }
    if let Some(caught) = checkup.caught() {
        let words =
            if caught.is_empty() { "none that could save work".to_owned() } else { caught.join(", ") };
        let _ = writeln!(text, "\nSignals {whose} catches: {words}");
    }
    text
}

pub(crate) fn doctor_json(checkup: &Checkup) -> serde_json::Value {
    let ability = |ability: &Ability| {
        serde_json::json!({"name": ability.name, "is": ability.reading.word(), "detail": ability.detail,
            "advice": ability.advice.filter(|_| !ability.is_there())})
    };
    let facts = &checkup.facts;
    serde_json::json!({
        "host": facts.name, "kernel": facts.kernel, "cpus": facts.cpus, "page_bytes": facts.page_bytes,
        "abilities": checkup.abilities.iter().map(ability).collect::<Vec<_>>(),
        "limits": checkup.limits, "unknown_limits": checkup.unknown,
        "process": checkup.process, "signals_caught": checkup.caught(),
    })
}
