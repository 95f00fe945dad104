//! The end of a recording: one sentence, then role by role, limits, cost.

use super::table::{Align, Table};
use super::verdict::process_words;
use super::{guarded, limit_name, plain};
use crate::commands::recorder::Told;
use crate::duration;
use lowtide_model::{ByteDelta, Bytes, EventKind, Exit, Recording, Source};
use lowtide_run::Finished;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// Lines of evidence at the end of a run.
const EVIDENCE_LINES: usize = 4;

/// What there is to say.
pub(crate) struct Ending<'a> {
    pub(crate) finished: &'a Finished,
    pub(crate) recording: &'a Path,
    pub(crate) told: &'a Told,
}

impl Ending<'_> {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let (recording, summary) = (&self.told.recording, &self.told.summary);
        let length = duration::words(Duration::from_secs_f64(summary.seconds));
        let name = plain(&recording.meta.name, 60);
        let mut text = format!("lowtide: {name} {} {length}: {}\n", self.verb(), self.how());
        for oom in &self.finished.ooms {
            let _ = writeln!(text, "  {}", oom.text);
        }
        text.push_str(&self.verdict());
        text.push_str(&self.finished.guarded.as_ref().map(guarded::text).unwrap_or_default());
        if !self.saw_nothing() {
            text.push_str(&self.roles());
        }
        text.push_str(&self.facts());
        text
    }

    /// Whether it was over before anything of its memory was read: that is not known then, and not 0.
    fn saw_nothing(&self) -> bool {
        self.told.recording.samples.is_empty()
            && self.told.summary.total == lowtide_verdict::Course::default()
    }

    fn peak_words(&self) -> String {
        if !self.saw_nothing() {
            return peak_words(&self.told.summary);
        }
        let kernel = self.told.recording.meta.job_peak_bytes.map(Bytes);
        let kernel = kernel.map(|peak| format!("; one process held up to {peak}, as the kernel tells"));
        format!("not known: it ended before its first sample{}", kernel.unwrap_or_default())
    }

    /// The summary for programs, with nothing where nothing is known.
    fn summary_json(&self) -> serde_json::Value {
        let mut summary = serde_json::json!(self.told.summary);
        if self.saw_nothing() {
            for unknown in ["total", "peak_low_bytes", "peak_high_bytes", "rss_sum_peak_bytes"] {
                summary[unknown] = serde_json::Value::Null;
            }
        }
        summary
    }

    /// The answer, with the lines that bear it. `lowtide explain` says the rest.
    fn verdict(&self) -> String {
        let main = &self.told.verdict.main;
        let mut text = format!("\n  {}\n", main.headline);
        if let Some(process) = process_words(main) {
            let _ = writeln!(text, "    process: {process}");
        }
        for line in main.evidence.iter().take(EVIDENCE_LINES) {
            let _ = writeln!(text, "    - {line}");
        }
        if let Some(advice) = main.advice.first() {
            let _ = writeln!(text, "    do: {advice}");
        }
        for finding in &self.told.verdict.findings {
            let process = process_words(finding).map(|process| format!(" ({process})")).unwrap_or_default();
            let _ = writeln!(text, "  also: {}{process}", finding.headline);
        }
        text.push('\n');
        text
    }

    fn verb(&self) -> &'static str {
        if self.told.recording.meta.attached { "was watched for" } else { "ran" }
    }

    fn how(&self) -> String {
        let guarded = self.finished.guarded.as_ref();
        let last = guarded.and_then(|guarded| guarded.stops.last()).filter(|stop| !stop.began_again);
        match self.finished.exit {
            Exit::Signal(9) if last.is_some_and(|stop| stop.rung == Some(lowtide_run::Rung::Kill)) => {
                "ended by the guard, just before the kernel would have".to_owned()
            }
            Exit::Signal(9) if last.is_some_and(|stop| stop.rung == Some(lowtide_run::Rung::Hung)) => {
                "ended by the guard in a save that took more and more memory, just before the kernel would have"
                    .to_owned()
            }
            Exit::Signal(9) if last.is_some_and(|stop| stop.rung == Some(lowtide_run::Rung::Overdue)) => {
                "ended by the guard: it did not stop within --stop-within".to_owned()
            }
            Exit::Code(code) => format!("exit code {code}"),
            Exit::Signal(9) if self.finished.ooms.is_empty() && counted(&self.told.recording) => {
                "ended by signal 9 (SIGKILL); no OOM counter moved, so a person or a program sent it"
                    .to_owned()
            }
            Exit::Signal(signal) => {
                let name = nix::sys::signal::Signal::try_from(signal)
                    .map_or("unknown", nix::sys::signal::Signal::as_str);
                format!("ended by signal {signal} ({name})")
            }
            Exit::Unknown if self.told.recording.meta.attached => "it runs on, or ended unseen".to_owned(),
            Exit::Unknown => "how it ended is not known".to_owned(),
        }
    }

    fn roles(&self) -> String {
        let heading = ["start", "average", "peak", "floor then", "floor now", "growth", "a minute lately"];
        let mut columns = vec![("role", Align::Left), ("n", Align::Right)];
        columns.extend(heading.map(|name| (name, Align::Right)));
        let mut table = Table::new(&columns);
        let mut row = |name: &str, count: u64, course: &lowtide_verdict::Course| {
            let mut cells = vec![name.to_owned(), count.to_string()];
            let sizes = [course.start_bytes, course.average_bytes, course.peak_bytes];
            cells.extend(sizes.map(|size| size.to_string()));
            cells.extend([course.floor_start_bytes, course.floor_end_bytes].map(|size| size.to_string()));
            cells.push(course.growth_bytes.to_string());
            let pace = course.late_bytes_per_minute.map(|pace| ByteDelta(pace as i64).to_string());
            cells.push(pace.unwrap_or_else(|| "-".to_owned()));
            table.row(cells);
        };
        let summary = &self.told.summary;
        for role in &summary.roles {
            row(role.role.word(), role.processes, &role.course);
        }
        row("whole tree", summary.processes, &summary.total);
        table.text()
    }

    fn facts(&self) -> String {
        let (recording, summary) = (&self.told.recording, &self.told.summary);
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<11} {value}");
        };
        if let Some(words) = mark_words(&lowtide_verdict::tally(recording)) {
            line("marks", words);
        }
        line("tree peak", self.peak_words());
        if let Some(held) = recording.limits.first() {
            let (left, limit) = (lowtide_verdict::least_left(recording, held), held.limit);
            line("limit", format!("{left} were left of {limit} ({}) when least was", limit_name(held)));
        }
        for (key, command) in &self.finished.survivors {
            line("survivor", format!("process {} runs on: {}", key.pid, plain(command, 80)));
        }
        for event in recording.events.iter().filter(|event| event.kind == EventKind::Unsharing).take(4) {
            line("un-shared", event.text.clone());
        }
        let refused = |event: &&lowtide_model::Event| {
            event.kind == EventKind::Note && event.text.starts_with("sharing is not")
        };
        if let Some(event) = recording.events.iter().find(refused) {
            line("sharing", event.text.clone());
        }
        if let Some(missed) = missed(recording) {
            line("not seen", missed);
        }
        line("own cost", cost_words(recording, summary.seconds));
        line("recording", self.recording.display().to_string());
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> serde_json::Value {
        let recording = &self.told.recording;
        let survivor = |(key, command): &(lowtide_model::ProcKey, String)| serde_json::json!({"process": key, "command": command});
        serde_json::json!({
            "schema": "lowtide.summary/1",
            "event": "end",
            "recording": self.recording.to_string_lossy(),
            "run_id": recording.meta.run_id,
            "name": recording.meta.name,
            "argv": recording.meta.argv,
            "exit": self.finished.exit,
            "oom": self.finished.ooms,
            "guard": self.finished.guarded,
            "survivors": self.finished.survivors.iter().map(survivor).collect::<Vec<_>>(),
            "summary": self.summary_json(),
            "marks": lowtide_verdict::tally(recording),
            "verdict": self.told.verdict.main,
            "findings": self.told.verdict.findings,
            "limits": recording.limits,
            "source": recording.meta.source,
            "own_cpu_ns": recording.meta.own_cpu_ns,
            "own_peak_bytes": recording.meta.own_peak_bytes,
            "stall_ns": recording.meta.stall_ns,
            "dropped_rows": recording.meta.dropped_rows,
        })
    }
}

/// What the job marked, if it marked anything.
fn mark_words(tally: &lowtide_verdict::Tally) -> Option<String> {
    let counted = |count: u64, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(tally.steps.and_then(|steps| counted(steps as u64, "step", "steps")));
    parts.extend(counted(tally.epochs, "epoch", "epochs"));
    parts.extend(counted(tally.evals, "evaluation", "evaluations"));
    parts.extend(counted(tally.saves, "save", "saves"));
    if parts.is_empty() {
        return None;
    }
    let ranks = if tally.ranks > 1 { format!(" on each of {} ranks", tally.ranks) } else { String::new() };
    Some(format!("{}{ranks}", parts.join(", ")))
}

fn peak_words(summary: &lowtide_verdict::Summary) -> String {
    let (peak, low, high) = (summary.total.peak_bytes, summary.peak_low_bytes, summary.peak_high_bytes);
    let band = if low == high { String::new() } else { format!(" ({low} to {high})") };
    let sum = summary.rss_sum_peak_bytes;
    let twice = if sum.as_f64() > peak.as_f64() * 1.05 {
        format!("; a sum of RSS would say {sum}, counting shared pages more than once")
    } else {
        String::new()
    };
    format!("{peak}{band}{twice}")
}

/// Whether a counter of OOM kills could be read after the death: a cgroup's may be gone by then, the machine's is not.
fn counted(recording: &Recording) -> bool {
    recording.host.iter().any(|row| row.oom_kills.is_some())
}

/// What this recording could not see, if anything.
fn missed(recording: &Recording) -> Option<String> {
    if recording.meta.dropped_rows > 0 {
        return Some(format!(
            "{} rows were lost because they could not be written",
            recording.meta.dropped_rows
        ));
    }
    (recording.meta.source == Some(Source::Listing))
        .then(|| "processes shorter than a tick (no task events here; `lowtide doctor` says why)".to_owned())
}

fn cost_words(recording: &Recording, seconds: f64) -> String {
    let meta = &recording.meta;
    let (cpu, peak, stall) =
        (meta.own_cpu_ns as f64 / 1e9, Bytes(meta.own_peak_bytes), meta.stall_ns as f64 / 1e6);
    // A share of a second or two says more about starting up than about recording.
    let cpu = if seconds < 10.0 {
        format!("{cpu:.2} s of CPU")
    } else {
        format!("{:.2} % of one core", cpu / seconds * 100.0)
    };
    let scans = scans_words(recording).unwrap_or_default();
    format!("{cpu}{scans}, {peak}; the job's memory map was held for {stall:.1} ms in all")
}

/// What the scans took that were made beside it.
fn scans_words(recording: &Recording) -> Option<String> {
    let cost = |row: &lowtide_model::ScanRow| {
        let report: serde_json::Value = serde_json::from_str(&row.report).ok()?;
        report.get("cost")?.get("cpu_ms")?.as_f64()
    };
    let each: Vec<f64> = recording.scans.iter().filter_map(cost).collect();
    let (count, seconds) = (each.len(), each.iter().sum::<f64>() / 1000.0);
    let scans = if count == 1 { "its scan" } else { "its scans" };
    (count > 0).then(|| format!(" and {seconds:.2} s of CPU in {scans}"))
}
