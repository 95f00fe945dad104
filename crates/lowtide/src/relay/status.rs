//! The status below the job's output: its four lines, and the escape sequences that put them there.

use super::pty::STATUS_ROWS;
use crate::screen::words;
use lowtide_wire::{RoleLine, Snapshot};
use ratatui::text::Span;
use std::fmt::Write;

/// How the relay stands with the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorder {
    /// Not heard of yet.
    Awaited,
    /// It tells us about the job.
    There,
    /// It said that the job is over, and ended.
    Ended,
    /// It went away while the job ran.
    Gone,
}

impl Recorder {
    /// Whether nothing more will come from it.
    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Gone)
    }
}

/// The lines of the status, each of them within `columns`.
pub(super) fn block(
    snapshot: Option<&Snapshot>,
    recorder: Recorder,
    columns: u16,
) -> [String; STATUS_ROWS as usize] {
    let width = usize::from(columns.saturating_sub(1));
    let (job, numbers, roles) = match snapshot {
        Some(snapshot) => (title(snapshot), numbers(snapshot), roles(&snapshot.roles)),
        None => ("lowtide".to_owned(), String::new(), String::new()),
    };
    let news = match (recorder, snapshot) {
        (Recorder::Awaited, _) => "waiting for the recorder".to_owned(),
        (Recorder::Gone, _) => "recorder gone, job runs on".to_owned(),
        (Recorder::Ended, _) => "the recorder ended".to_owned(),
        (Recorder::There, None) => String::new(),
        (Recorder::There, Some(snapshot)) => news(snapshot),
    };
    [rule(&job, width), fit(&numbers, width), fit(&roles, width), fit(&news, width)]
}

fn title(snapshot: &Snapshot) -> String {
    let mut time = words::elapsed(snapshot.tick.seconds());
    if let Some(progress) = words::progress(snapshot) {
        time = format!("{time}  {progress}");
    }
    if snapshot.name.is_empty() {
        format!("lowtide  {time}")
    } else {
        format!("lowtide  {}  {time}", snapshot.name)
    }
}

fn numbers(snapshot: &Snapshot) -> String {
    let limit = words::tightest(snapshot).map_or_else(|| "no limit found".to_owned(), words::limit_words);
    [
        snapshot.total.bytes.to_string(),
        words::rate(snapshot.bytes_per_minute),
        limit,
        words::processes(snapshot.processes.len()),
    ]
    .join("  ")
}

fn roles(lines: &[RoleLine]) -> String {
    let one = |line: &RoleLine| match line.count {
        1 => format!("{} {}", line.role.word(), line.rss_bytes),
        count => format!("{count} x {} {}", line.role.word(), line.rss_bytes),
    };
    lines.iter().map(one).collect::<Vec<_>>().join("  ")
}

fn news(snapshot: &Snapshot) -> String {
    match (&snapshot.headline, snapshot.warnings.last()) {
        (Some(headline), _) => headline.clone(),
        (None, Some(warning)) => format!("warning: {warning}"),
        (None, None) => String::new(),
    }
}

/// A line across the screen with a title in it.
fn rule(title: &str, width: usize) -> String {
    let head = fit(&format!("── {title} "), width);
    let rest = width.saturating_sub(Span::raw(head.as_str()).width());
    format!("{head}{}", "─".repeat(rest))
}

/// As much of the text as fits, cut between characters.
fn fit(text: &str, width: usize) -> String {
    let mut fitting = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += Span::raw(c.to_string()).width();
        if used > width {
            break;
        }
        fitting.push(c);
    }
    fitting
}

/// Makes room for the status and confines scrolling to the lines above it.
///
/// Line feeds at the bottom scroll what stands in the way up; then the cursor goes up by as many, which brings it above
/// the status wherever it was. All below the cursor is wiped: after a resize an old status may stand there.
pub(super) fn claim(job_rows: u16) -> Vec<u8> {
    let room = "\n".repeat(usize::from(STATUS_ROWS));
    format!("\x1b7\x1b[r\x1b8{room}\x1b[{STATUS_ROWS}A\x1b7\x1b[B\r\x1b[J\x1b8{}", bind(job_rows))
        .into_bytes()
}

/// Confines scrolling to the job's lines; the cursor stays.
pub(super) fn bind(job_rows: u16) -> String {
    format!("\x1b7\x1b[1;{job_rows}r\x1b8")
}

/// Lets the whole screen scroll again; the cursor stays.
pub(super) fn unbind() -> Vec<u8> {
    b"\x1b7\x1b[r\x1b8\x1b[?25h".to_vec()
}

/// Wipes the status and gives the whole screen back, the cursor where the job left it and visible.
pub(super) fn release(job_rows: u16) -> Vec<u8> {
    format!("\x1b7\x1b[?6l\x1b[r\x1b[{};1H\x1b[0m\x1b[J\x1b8\x1b[?25h", job_rows + 1).into_bytes()
}

/// Said once when the shell has the terminal again although the job runs: its keys no longer reach the job.
pub(super) fn farewell(own_pid: u32) -> String {
    format!("\r\nlowtide: recorder gone, job runs on; `kill -INT {own_pid}` does what Ctrl-C did\r\n")
}

/// Whether the job counts lines from the top of its region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    #[default]
    Screen,
    Region,
}

/// Draws the lines below the job's, and goes back to where the job was, colours and all.
pub(super) fn draw(lines: &[String], job_rows: u16, origin: Origin) -> Vec<u8> {
    let mut out = String::from("\x1b7");
    if origin == Origin::Region {
        out.push_str("\x1b[?6l");
    }
    for (row, line) in (job_rows + 1..).zip(lines) {
        let _ = write!(out, "\x1b[{row};1H\x1b[0m\x1b[2K{line}");
    }
    out.push_str("\x1b8");
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{Bytes, LimitHeld, LimitKind, Role, Tick};
    use proptest::prelude::*;

    fn snapshot() -> Snapshot {
        let role = |role, count, mib| RoleLine {
            role,
            count,
            rss_bytes: Bytes::from_mib(mib),
            bytes_per_minute: None,
        };
        Snapshot {
            name: "vlm".to_owned(),
            tick: Tick::from_seconds(61.0),
            running: true,
            bytes_per_minute: Some(1_048_576.0),
            limits: vec![LimitHeld { kind: LimitKind::Host, limit: Bytes(100), used: Bytes(40) }],
            roles: vec![role(Role::Trainer, 1, 500), role(Role::LoaderWorker, 4, 200)],
            ..Snapshot::default()
        }
    }

    #[test]
    fn four_lines_say_total_limit_roles_and_news() {
        let lines = block(Some(&snapshot()), Recorder::There, 80);
        assert!(lines[0].starts_with("── lowtide  vlm  1 min 01 s ──"));
        assert_eq!(lines[1], "0 B  +1.00 MiB/min  host 40 % of 100 B, 60 B left  0 processes");
        assert_eq!(lines[2], "trainer 500 MiB  4 x loader worker 200 MiB");
        assert_eq!(block(Some(&snapshot()), Recorder::Gone, 60)[3], "recorder gone, job runs on");
    }

    #[test]
    fn the_status_leaves_cursor_colour_and_the_lines_above_alone() {
        let mut terminal = vt100::Parser::new(12, 40, 0);
        terminal.process(b"one\r\ntwo \x1b[31mred");
        let before = terminal.screen().cursor_position();
        terminal.process(&claim(8));
        let lines = block(Some(&snapshot()), Recorder::There, 40);
        terminal.process(&draw(&lines, 8, Origin::Screen));
        terminal.process(b"!");
        assert_eq!(terminal.screen().cursor_position(), (before.0, before.1 + 1));
        assert_eq!(terminal.screen().cell(1, 7).unwrap().fgcolor(), vt100::Color::Idx(1));
        let rows: Vec<String> = terminal.screen().rows(0, 40).collect();
        assert_eq!(rows[1], "two red!");
        assert!(rows[8].starts_with("── lowtide"), "{rows:?}");
    }

    #[test]
    fn claiming_at_the_bottom_scrolls_and_loses_nothing() {
        let mut terminal = vt100::Parser::new(12, 40, 100);
        for i in 0..30 {
            terminal.process(format!("line {i}\r\n").as_bytes());
        }
        terminal.process(&claim(8));
        assert_eq!(terminal.screen().cursor_position(), (7, 0));
        assert_eq!(terminal.screen().rows(0, 40).nth(6).unwrap(), "line 29");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_screen(name in any::<String>(), headline in any::<String>(), columns in 0_u16..200) {
            let mut snapshot = Snapshot { name, headline: Some(headline), ..snapshot() };
            words::clean_snapshot(&mut snapshot);
            for line in block(Some(&snapshot), Recorder::There, columns) {
                prop_assert!(Span::raw(line.as_str()).width() <= usize::from(columns));
            }
        }
    }
}
