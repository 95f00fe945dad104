//! A bug report for the project whose code grows: versions, command, curve, verdict; paths and hosts taken out.

use crate::html::{capital, duration, held};
use crate::page::Page;
use crate::redact;
use lowtide_model::{Axis, ByteDelta, Bytes};
use std::fmt::Write as _;

/// Rows of the curve in the report: enough to see its shape.
const ROWS: usize = 24;

/// The report as Markdown, ready to be posted.
pub fn markdown(page: &Page) -> String {
    let main = &page.verdict;
    let mut out = String::new();
    let _ = writeln!(out, "## Memory: {}\n", line(&main.headline));
    let _ = writeln!(out, "{}.\n", capital(&line(&page.outcome_words)));
    list(&mut out, "Evidence", main.evidence.iter().map(|l| line(l)));
    list(
        &mut out,
        "Ruled out",
        main.ruled_out.iter().map(|r| format!("{}: {}", r.kind.word(), line(&r.because))),
    );
    list(&mut out, "Also", page.findings.iter().map(|f| line(&f.headline)));
    out.push_str(&scan(page));
    out.push_str(&curve(page));
    out.push_str(&setting(page));
    let _ = writeln!(out, "### How to check this\n\n{}.\n", capital(&line(&main.disprove)));
    let _ = writeln!(
        out,
        "_Made by lowtide {}; paths, addresses and host names are taken out._",
        env!("CARGO_PKG_VERSION")
    );
    out
}

fn list(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = writeln!(out, "### {title}\n");
        lines.for_each(|line| {
            let _ = writeln!(out, "- {line}");
        });
        out.push('\n');
    }
}

/// Foreign words inside Markdown: no folders, no markup, one line.
fn line(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    redact::text(&flat).replace('<', "&lt;").replace('`', "'").replace('|', "\\|").replace('[', "\\[")
}

/// Words in a block of code: nothing can end it.
fn code(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().replace('`', "'")
}

/// What grew and who holds it, where the run was scanned.
fn scan(page: &Page) -> String {
    let Some(scan) = &page.scan else { return String::new() };
    let mut out = format!("### What the memory is\n\n{}.\n\n", capital(&line(&held::when(scan))));
    let size = |bytes: f64| Bytes::from_f64(bytes).to_string();
    if !scan.types.is_empty() {
        out.push_str("| type | objects | holds | grew by |\n|---|---:|---:|---:|\n");
    }
    for row in &scan.types {
        let more = row.more_bytes.map(|more| ByteDelta(more as i64).to_string()).unwrap_or_default();
        let _ = writeln!(out, "| {} | {:.0} | {} | {more} |", line(&row.name), row.count, size(row.bytes));
    }
    out.push('\n');
    for holder in scan.holders.iter().filter(|holder| !holder.way.is_empty()) {
        let way = code(&redact::text(&holder.way.join(" <- ")));
        let _ = writeln!(out, "Held by `{way}` ({})\n", line(held::agreed(holder).trim_end_matches('.')));
    }
    out
}

fn curve(page: &Page) -> String {
    let figure = &page.figure;
    let points = figure.line.x.len();
    let every = points.div_ceil(ROWS).max(1);
    let mut out = format!(
        "### Curve\n\n{}; each row holds the range since the row before.\n\n",
        capital(&line(&figure.what))
    );
    let _ = writeln!(out, "| {} | lowest | highest | last |\n|---:|---:|---:|---:|", heading(figure.axis));
    for from in (0..points).step_by(every) {
        let to = (from + every).min(points);
        let size = |bytes: f64| Bytes::from_f64(bytes).to_string();
        let low = figure.line.low[from..to].iter().copied().fold(f64::INFINITY, f64::min);
        let high = figure.line.high[from..to].iter().copied().fold(0.0, f64::max);
        let (x, last) = (figure.line.x[to - 1], figure.line.last[to - 1]);
        let place = if figure.axis == Axis::Seconds { duration(x) } else { format!("{x:.0}") };
        let _ = writeln!(out, "| {place} | {} | {} | {} |", size(low), size(high), size(last));
    }
    out.push('\n');
    out
}

const fn heading(axis: Axis) -> &'static str {
    match axis {
        Axis::Step => "step",
        Axis::Seconds => "time",
        Axis::Sample => "sample",
        Axis::Epoch => "epoch",
    }
}

fn setting(page: &Page) -> String {
    let about = &page.about;
    let mut out = String::from("### Setting\n\n");
    if !about.command.is_empty() {
        let words: Vec<String> = about.command.split(' ').map(str::to_owned).collect();
        let _ = writeln!(out, "```\n{}\n```\n", code(&redact::command(&words)));
    }
    if !about.kernel.is_empty() {
        let _ = writeln!(out, "- Linux {}, {} CPUs", line(&about.kernel), about.cpus);
    }
    for version in &page.versions {
        let _ = writeln!(out, "- {}", line(version));
    }
    for (name, count, peak) in roles(page) {
        let _ = writeln!(out, "- {count} {name}, peak {peak}");
    }
    if let Some(seconds) = about.seconds {
        let _ = writeln!(out, "- watched for {}", duration(seconds));
    }
    if let Some(ending) = &about.ending {
        let _ = writeln!(out, "- {}", line(ending));
    }
    out.push('\n');
    out
}

fn roles(page: &Page) -> Vec<(&'static str, u64, Bytes)> {
    let summary = page.summary.iter().flat_map(|summary| &summary.roles);
    summary.map(|role| (role.role.word(), role.processes, role.course.peak_bytes)).collect()
}
