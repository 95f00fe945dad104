//! `sar -r`: what the machine has in use, without the page cache, which older versions count as used.

use super::super::{Attempt, Hints, numbers, page_cache, times};
use super::times::Moment;
use super::{KIB, Rounds, unit};
use lowtide_model::Metric;

/// A row: when, and in kilobytes what is used, free, and cache.
struct Row {
    at: Moment,
    used: f64,
    free: Option<f64>,
    cache: Option<f64>,
}

/// Where the columns stand under a heading `12:00:00 kbmemfree kbavail kbmemused ...`, and how many there are.
struct Heading {
    used: usize,
    free: Option<usize>,
    cache: Vec<usize>,
    width: usize,
}

fn heading(cells: &[&str]) -> Option<Heading> {
    let at = |name: &str| cells.iter().position(|cell| *cell == name);
    let cache = ["kbbuffers", "kbcached"].into_iter().filter_map(at).collect();
    Some(Heading { used: at("kbmemused")?, free: at("kbmemfree"), cache, width: cells.len() })
}

pub(super) fn read(text: &str, hints: &Hints) -> Attempt {
    let mut under: Option<Heading> = None;
    let mut rows = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        if let Some(found) = heading(&cells) {
            under = Some(found);
        } else if let Some(heading) = under.as_ref().filter(|heading| cells.len() == heading.width) {
            rows.extend(row(&cells, heading).zip(times::find(line)).map(|(row, at)| Row { at, ..row }));
        }
    }
    if rows.is_empty() {
        return Err("no heading with kbmemused".into());
    }
    Ok(curves(&rows, hints))
}

fn row(cells: &[&str], heading: &Heading) -> Option<Row> {
    let cell = |at: usize| cells.get(at).and_then(|cell| numbers::number(cell));
    let cache: Option<f64> = heading.cache.iter().map(|at| cell(*at)).sum();
    Some(Row { at: Moment::default(), used: cell(heading.used)?, free: heading.free.and_then(cell), cache })
}

fn curves(rows: &[Row], hints: &Hints) -> Vec<lowtide_model::Curve> {
    let of = |value: &dyn Fn(&Row) -> Option<f64>| -> Vec<f64> {
        rows.iter().map(|row| value(row).unwrap_or(f64::NAN)).collect()
    };
    let used = of(&|row| Some(row.used));
    let cache = of(&|row| row.cache);
    let holds_cache = page_cache::is_in_used(&used, &of(&|row| row.free), &cache);
    let unit = unit(hints, KIB);
    let mut rounds = Rounds::default();
    for (row, cache) in rows.iter().zip(&cache) {
        rounds.now = Some(row.at);
        rounds.add("", (row.used - if holds_cache { *cache } else { 0.0 }) * unit.bytes, None);
    }
    let without = if holds_cache { " without buffers and page cache, which it holds here" } else { "" };
    let note = format!("the whole machine: kbmemused{without}, taken as {}", unit.name);
    rounds.curves(&Metric::Host, &note)
}
