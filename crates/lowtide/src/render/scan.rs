//! What a process holds, for people and for programs.

use super::plain;
use super::table::{Align, Table};
use crate::duration;
use lowtide_model::{ByteDelta, Bytes};
use lowtide_run::scanning::Report;
use lowtide_scan::{Coverage, Difference, Holders, Kind, Scan, TypeGrowth};
use std::fmt::Write as _;
use std::time::Duration;

/// Longest type name shown.
const NAME_CHARS: usize = 60;
/// What makes up less than this part of the growth, or of all memory, is not worth a line.
const WORTH_PART: f64 = 0.01;
/// Longest path to a holder shown.
const PATH_CHARS: usize = 400;

/// What changed between two scans.
pub(crate) struct Growth {
    pub(crate) difference: Difference,
    pub(crate) seconds: f64,
    pub(crate) steps: Option<f64>,
}

/// The report as JSON; with a growth, both in one object.
pub(crate) fn scan_json(report: &Report, growth: Option<&Growth>) -> serde_json::Value {
    match growth {
        None => serde_json::to_value(report).unwrap_or_default(),
        Some(growth) => serde_json::json!({
            "schema": "lowtide.scan-growth/1",
            "seconds": growth.seconds,
            "steps": growth.steps,
            "difference": growth.difference,
            "scan": report,
        }),
    }
}

/// The answer first: what grew, then what is there, then what it rests on.
pub(crate) fn scan_text(report: &Report, growth: Option<&Growth>, top: usize) -> String {
    let scan = &report.scan;
    let mut text = format!(
        "process {} ({}): {} in memory{}{}\n",
        report.process.pid,
        plain(&report.command, NAME_CHARS),
        scan.rss_bytes,
        if scan.swap_bytes == Bytes::ZERO {
            String::new()
        } else {
            format!(", {} swapped out and not read", scan.swap_bytes)
        },
        scan.python
            .as_ref()
            .map(|python| format!(", Python {}", plain(&python.version, 12)))
            .unwrap_or_default(),
    );
    if let Some(growth) = growth {
        text.push_str(&growth_text(growth, top));
    }
    text.push_str(&kinds_text(scan));
    text.push_str(&types_text(scan, top));
    if growth.is_none() {
        let worth = |found: &&Holders| found.bytes.as_f64() >= scan.rss_bytes.as_f64() * WORTH_PART;
        let what = |found: &Holders| {
            format!("{} ({} objects, {})", name_of(&found.module, &found.name), found.count, found.bytes)
        };
        let named = scan.holders.iter().filter(worth).map(|found| (what(found), found));
        text.push_str(&holders_text(named));
    }
    text.push_str(&tensors_text(scan, top));
    text.push_str(&native_text(scan, top));
    text.push_str(&mappings_text(scan, top));
    text.push_str(&suspects_text(scan, growth));
    text.push_str(&ground_text(report, growth));
    text
}

fn growth_text(growth: &Growth, top: usize) -> String {
    let length = duration::words(Duration::try_from_secs_f64(growth.seconds).unwrap_or_default());
    let over = match growth.steps {
        Some(steps) => format!("in {steps:.0} steps ({length})"),
        None => format!("in {length}"),
    };
    let verb = if growth.difference.rss_bytes.0 < 0 { "shrank" } else { "grew" };
    let size = Bytes(growth.difference.rss_bytes.0.unsigned_abs());
    let mut text = format!("\n{over} it {verb} by {size}{}\n", per_step(growth.difference.rss_bytes, growth));
    let all = growth.difference.rss_bytes.0.max(0) as f64;
    let worth = |row: &&TypeGrowth| row.bytes() > 0 && row.bytes() as f64 >= all * WORTH_PART;
    let grown: Vec<&TypeGrowth> = growth.difference.types.iter().filter(worth).take(top).collect();
    if grown.is_empty() {
        text.push_str("  no Python type holds more than before\n");
    } else {
        let mut heading = vec![
            ("grew", Align::Left),
            ("objects", Align::Right),
            ("bytes", Align::Right),
            ("of that native", Align::Right),
        ];
        heading.extend(growth.steps.map(|_| ("a step", Align::Right)));
        let mut table = Table::new(&heading);
        for row in &grown {
            let bytes = ByteDelta(row.bytes());
            let mut cells = vec![
                name_of(&row.module, &row.name),
                format!("{:+}", row.count),
                bytes.to_string(),
                row.owned_bytes.to_string(),
            ];
            cells.extend(growth.steps.map(|steps| ByteDelta((bytes.0 as f64 / steps) as i64).to_string()));
            table.row(cells);
        }
        text.push_str(&table.text());
    }
    for row in grown.iter().filter(|row| row.classes > 1) {
        let name = name_of(&row.module, &row.name);
        let _ = writeln!(text, "  {name} is made again and again: {} more classes of that name", row.classes);
    }
    let of = |found: &Holders| {
        let row = grown.iter().find(|row| row.name == found.name && row.module == found.module)?;
        Some(format!(
            "{} ({:+} objects, {})",
            name_of(&row.module, &row.name),
            row.count,
            ByteDelta(row.bytes())
        ))
    };
    let named = growth.difference.holders.iter().filter_map(|found| Some((of(found)?, found)));
    text.push_str(&holders_text(named));
    let parts = growth.difference.kinds.iter().filter(|part| part.bytes.0.unsigned_abs() >= 1 << 20);
    let parts: Vec<String> =
        parts.map(|part| format!("{} {}", kind_words(part.kind).0, part.bytes)).collect();
    if !parts.is_empty() {
        let _ = writeln!(text, "  by part: {}", parts.join(", "));
    }
    text
}

fn per_step(bytes: ByteDelta, growth: &Growth) -> String {
    growth
        .steps
        .map(|steps| format!(", {} a step", ByteDelta((bytes.0 as f64 / steps) as i64)))
        .unwrap_or_default()
}

fn kinds_text(scan: &Scan) -> String {
    let mut parts = scan.kinds.clone();
    parts.sort_by_key(|part| (part.kind == Kind::Unexplained, std::cmp::Reverse(part.bytes)));
    let mut table = Table::new(&[
        ("where it is", Align::Left),
        ("bytes", Align::Right),
        ("share", Align::Right),
        ("", Align::Left),
    ]);
    for part in parts.iter().filter(|part| part.bytes > Bytes::ZERO || part.kind == Kind::Unexplained) {
        let (name, what) = kind_words(part.kind);
        table.row(vec![
            name.to_owned(),
            part.bytes.to_string(),
            format!("{:.1} %", part.share * 100.0),
            what.to_owned(),
        ]);
    }
    format!("\n{}", table.text())
}

/// What a part is called, and what it means.
const fn kind_words(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::PythonObjects => ("Python objects", "the objects themselves"),
        Kind::OwnedNative => ("owned by Python objects", "buffers behind them: arrays, pixels, tables"),
        Kind::UnownedNative => ("native, no owner found", "live memory of C and C++ code"),
        Kind::PythonRaw => ("Python's own blocks", "live, and part of no object"),
        Kind::KeptNative => {
            ("freed, kept by malloc", "not in use: fragmentation and caches of the C library")
        }
        Kind::KeptPython => ("freed, kept by Python", "not in use: pools that are not empty"),
        Kind::Stacks => ("thread stacks", ""),
        Kind::OtherAnonymous => ("other anonymous", "of no allocator that is known here"),
        Kind::FilePrivate => ("private file pages", "written data of libraries"),
        Kind::File => ("file pages", "code and mapped files; the kernel can take them back"),
        Kind::Shared => ("shared memory", ""),
        Kind::Device => ("device mappings", "of a driver; not read"),
        Kind::Unexplained => ("unexplained", "moved meanwhile, or not seen"),
    }
}

fn types_text(scan: &Scan, top: usize) -> String {
    if scan.types.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("what holds most", Align::Left),
        ("objects", Align::Right),
        ("own", Align::Right),
        ("native they own", Align::Right),
        ("together", Align::Right),
    ]);
    for row in scan.types.iter().take(top) {
        let name = name_of(&row.module, &row.name);
        table.row(vec![
            if row.classes > 1 { format!("{name} ({} classes)", row.classes) } else { name },
            row.count.to_string(),
            row.own_bytes.to_string(),
            row.owned_bytes.to_string(),
            row.bytes().to_string(),
        ]);
    }
    let more = scan.types.len().saturating_sub(top);
    let rest: Bytes = scan.types.iter().skip(top).map(lowtide_scan::TypeUse::bytes).sum();
    let more =
        if more == 0 { String::new() } else { format!("  and {more} more types with {rest} together\n") };
    format!("\n{}{}{more}", table.text(), absent_text(scan, top))
}

/// Bytes that are allocated and not in memory are told from this on.
fn worth_of_absent(bytes: Bytes) -> Option<Bytes> {
    Some(bytes).filter(|bytes| *bytes >= Bytes::from_mib(1))
}

/// What types have allocated and never written to, or what was swapped out: it is no part of what is resident.
fn absent_text(scan: &Scan, top: usize) -> String {
    let mut rows: Vec<_> = scan
        .types
        .iter()
        .filter_map(|row| Some((worth_of_absent(row.absent_bytes)?, name_of(&row.module, &row.name))))
        .collect();
    rows.sort_by_key(|(absent, _)| std::cmp::Reverse(*absent));
    let told: Vec<String> =
        rows.iter().take(top.min(5)).map(|(absent, name)| format!("{name} {absent}")).collect();
    if told.is_empty() {
        return String::new();
    }
    format!(
        "  allocated beside that and not in memory (not written yet, or swapped out): {}\n",
        told.join(", ")
    )
}

/// Who holds what: each with the words for what it is.
fn holders_text<'h>(holders: impl Iterator<Item = (String, &'h Holders)>) -> String {
    let mut text = String::new();
    for (what, found) in holders {
        if found.text.is_empty() {
            let why = if found.doubt.is_empty() { "no common holder was found" } else { &found.doubt };
            let _ = writeln!(text, "  {what}: {}", plain(why, PATH_CHARS));
            continue;
        }
        let _ = writeln!(text, "  {what} held by {}", plain(&found.text, PATH_CHARS));
        let uneven = (found.share - found.agree as f64 / found.samples.max(1) as f64).abs() > 0.05;
        let bytes =
            if uneven { format!(", {:.0} % of the bytes", found.share * 100.0) } else { String::new() };
        let new = if found.new { "new " } else { "" };
        let _ = write!(text, "    {} of {} {new}objects looked at agree{bytes}", found.agree, found.samples);
        for more in [&found.also, &found.doubt].into_iter().filter(|more| !more.is_empty()) {
            let _ = write!(text, "; {}", plain(more, PATH_CHARS));
        }
        text.push('\n');
    }
    if text.is_empty() { text } else { format!("\n  who holds it\n{text}") }
}

fn tensors_text(scan: &Scan, top: usize) -> String {
    if scan.tensors.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("tensors", Align::Left),
        ("shape", Align::Left),
        ("count", Align::Right),
        ("bytes", Align::Right),
    ]);
    for row in scan.tensors.iter().take(top) {
        let kind = plain(&format!("{} {}", row.device, row.dtype), NAME_CHARS);
        table.row(vec![kind, format!("{:?}", row.shape), row.count.to_string(), row.bytes.to_string()]);
    }
    format!("\n{}", table.text())
}

fn native_text(scan: &Scan, top: usize) -> String {
    let native = &scan.native;
    if native.live_bytes == Bytes::ZERO && native.arenas.is_empty() && native.mapped_bytes == Bytes::ZERO {
        return String::new();
    }
    let mut text = format!(
        "\n  C allocator: {} in use, {} of it in mappings of its own, {} freed and kept in {} arena{}\n",
        native.live_bytes,
        native.mapped_bytes,
        native.kept_bytes,
        native.arenas.len(),
        if native.arenas.len() == 1 { "" } else { "s" },
    );
    let kept = |arena: &lowtide_scan::Arena| {
        arena.free_bytes.saturating_add(arena.top_bytes).saturating_add(arena.cached_bytes)
    };
    let mut arenas: Vec<_> = native.arenas.iter().filter(|arena| kept(arena) >= Bytes::from_mib(1)).collect();
    arenas.sort_by_key(|arena| std::cmp::Reverse(kept(arena)));
    for arena in arenas.iter().take(top.min(5)) {
        let _ = writeln!(
            text,
            "    arena {}: {} in use, {} free between, {} free at the top, {} cached by threads",
            plain(&arena.name, 20),
            arena.live_bytes,
            arena.free_bytes,
            arena.top_bytes,
            arena.cached_bytes
        );
    }
    let sizes = native.unowned_sizes.iter().take(top.min(5)).filter(|size| size.bytes >= Bytes::from_mib(1));
    let sizes: Vec<String> =
        sizes.map(|size| format!("{} x {} = {}", size.count, size.size_bytes, size.bytes)).collect();
    if !sizes.is_empty() {
        let _ = writeln!(text, "    without an owner, by size: {}", sizes.join(", "));
    }
    text
}

fn mappings_text(scan: &Scan, top: usize) -> String {
    let wanted = |kind: Kind| matches!(kind, Kind::File | Kind::Shared | Kind::Device | Kind::FilePrivate);
    let rows: Vec<_> = scan
        .mappings
        .iter()
        .filter(|row| wanted(row.kind) && row.resident_bytes >= Bytes::from_mib(1))
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("mappings", Align::Left),
        ("what", Align::Left),
        ("in memory", Align::Right),
        ("of", Align::Right),
    ]);
    for row in rows.iter().take(top.min(8)) {
        table.row(vec![
            end_of_path(&row.name),
            kind_words(row.kind).0.to_owned(),
            row.resident_bytes.to_string(),
            row.size_bytes.to_string(),
        ]);
    }
    format!("\n{}", table.text())
}

fn suspects_text(scan: &Scan, growth: Option<&Growth>) -> String {
    if scan.suspects.is_empty() {
        return String::new();
    }
    let mut heading = vec![
        ("usual suspects", Align::Left),
        ("where", Align::Left),
        ("entries", Align::Right),
        ("bytes", Align::Right),
    ];
    heading.extend(growth.map(|_| ("grew", Align::Right)));
    let mut table = Table::new(&heading);
    for row in &scan.suspects {
        let place = if row.holder.is_empty() {
            row.attribute.clone()
        } else {
            format!("{}.{}", row.holder, row.attribute)
        };
        let bytes = match row {
            row if row.cut => format!("over {}, not all counted", row.bytes),
            row if row.at_least => format!("at least {}", row.bytes),
            row => row.bytes.to_string(),
        };
        let absent = worth_of_absent(row.absent_bytes).map(|absent| format!(", {absent} not in memory"));
        let bytes = bytes + &absent.unwrap_or_default();
        let mut cells = vec![
            plain(&row.label, NAME_CHARS),
            plain(&place, NAME_CHARS),
            if row.count == 0 { "-".to_owned() } else { row.count.to_string() },
            bytes,
        ];
        cells.extend(growth.map(|growth| {
            let same = growth
                .difference
                .suspects
                .iter()
                .find(|grown| grown.attribute == row.attribute && grown.holder == row.holder);
            same.map_or_else(|| "-".to_owned(), |grown| grown.bytes.to_string())
        }));
        table.row(cells);
    }
    format!("\n{}", table.text())
}

/// What it rests on: coverage, doubts, allocators that are not understood, and the price.
fn ground_text(report: &Report, growth: Option<&Growth>) -> String {
    let scan = &report.scan;
    let mut text = String::from("\n  what this rests on\n");
    for line in &scan.coverage {
        let _ = writeln!(text, "    {}", coverage_words(line));
    }
    for allocator in
        scan.allocators.iter().filter(|allocator| !allocator.understood || !allocator.note.is_empty())
    {
        let state = if allocator.understood { "" } else { " is not understood" };
        let note = if allocator.note.is_empty() {
            String::new()
        } else {
            format!(": {}", plain(&allocator.note, PATH_CHARS))
        };
        let _ = writeln!(text, "    allocator {}{state}{note}", plain(&allocator.name, NAME_CHARS));
    }
    for doubt in growth.into_iter().flat_map(|growth| &growth.difference.doubt) {
        let _ = writeln!(text, "    doubt: {}", plain(doubt, PATH_CHARS));
    }
    let stopped = if report.stopped_ms > 0.0 {
        format!("{:.0} ms", report.stopped_ms)
    } else {
        "not at all".to_owned()
    };
    let cost = scan.cost;
    let _ = writeln!(
        text,
        "    cost: {} ms of CPU, {} read, {} of our own memory; the process was stopped {stopped}",
        cost.cpu_ms, cost.read_bytes, cost.own_bytes
    );
    text
}

fn coverage_words(line: &Coverage) -> String {
    let share = if line.of_bytes == Bytes::ZERO {
        100.0
    } else {
        line.seen_bytes.as_f64() / line.of_bytes.as_f64() * 100.0
    };
    let retries = if line.retries == 0 { String::new() } else { format!(", {} read again", line.retries) };
    let doubt =
        if line.doubt.is_empty() { String::new() } else { format!("; {}", plain(&line.doubt, PATH_CHARS)) };
    format!("{}: {share:.1} % of {} understood{retries}{doubt}", plain(&line.what, NAME_CHARS), line.of_bytes)
}

/// Of a long path the end tells more than the beginning.
fn end_of_path(path: &str) -> String {
    let path = plain(path, PATH_CHARS);
    let long = path.chars().count().saturating_sub(NAME_CHARS);
    if long == 0 { path } else { format!("...{}", path.chars().skip(long + 3).collect::<String>()) }
}

fn name_of(module: &str, name: &str) -> String {
    let full =
        if module.is_empty() || module == "builtins" { name.to_owned() } else { format!("{module}.{name}") };
    plain(&full, NAME_CHARS)
}
