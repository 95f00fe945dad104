//! Recordings as a list.

use super::plain;
use super::table::{Align, Table};
use crate::duration;
use crate::failure::Failure;
use lowtide_model::{Bytes, RunState};
use lowtide_store::Listed;
use std::fmt::Write as _;
use std::path::Path;

const fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Running => "still running",
        RunState::Finished => "finished",
        RunState::CutOff => "cut off",
    }
}

fn started(unix_ns: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// A recording of the folder with what its rows say.
pub(crate) struct ListedRun {
    pub(crate) listed: Listed,
    /// The largest total of the tree; none without samples.
    pub(crate) peak: Option<Bytes>,
    /// Why it was likely cut off.
    pub(crate) note: Option<String>,
}

pub(crate) fn list_text(dir: &Path, listed: &[ListedRun]) -> String {
    if listed.is_empty() {
        return format!("No recordings in {}. Make one: lowtide run -- CMD\n", dir.display());
    }
    let right = Align::Right;
    let mut table = Table::new(&[
        ("started", Align::Left),
        ("state", Align::Left),
        ("length", right),
        ("peak", right),
        ("command", Align::Left),
        ("file", Align::Left),
    ]);
    let mut notes = String::new();
    for ListedRun { listed: one, peak, note } in listed {
        let file = one.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match &one.run {
            Ok(run) => {
                let peak = peak.map_or_else(|| "-".to_owned(), |peak| peak.to_string());
                let command = plain(&run.meta.argv.join(" "), 48);
                let length = duration::words(run.length);
                let state = state_word(run.state).to_owned();
                if let Some(note) = note {
                    let _ = writeln!(notes, "  {file}: {note}");
                }
                table.row(vec![started(run.meta.started_unix_ns), state, length, peak, command, file]);
            }
            Err(error) => {
                let _ = writeln!(notes, "  unreadable: {file}: {}", Failure::from(error).sentence());
            }
        }
    }
    format!("{}:\n{}{notes}", dir.display(), table.text())
}

pub(crate) fn list_json(listed: &[ListedRun]) -> String {
    let line = |ListedRun { listed: one, peak, note }: &ListedRun| match &one.run {
        Ok(run) => serde_json::json!({
            "file": one.path, "run_id": run.meta.run_id, "name": run.meta.name, "argv": run.meta.argv,
            "started_unix_ns": run.meta.started_unix_ns, "seconds": run.length.as_secs_f64(),
            "peak_bytes": peak, "state": run.state, "note": note,
        }),
        Err(error) => serde_json::json!({"file": one.path, "error": Failure::from(error).sentence()}),
    };
    listed.iter().map(|one| format!("{}\n", line(one))).collect()
}
