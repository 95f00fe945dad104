//! A time since 1970 that stands among the numbers of each line without a name: `put sys.mem.used 1741078800 3000000000`.
//!
//! As bytes it would be a memory of 1.7 GB that grows by a few bytes each time, which no memory does. A number that has a
//! name of its own is what it says: `samples 1500000000` counts, and `bytes_in_use 1500000256` is memory.

use super::super::numbers::{self, Found};
use super::clock;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Lines that are looked at.
const SNIFFED: usize = 200;
const FEWEST_LINES: usize = 5;

/// Seconds since 1970 in our time, and how many a line may come after the one before.
const SECONDS: std::ops::Range<f64> = 1e9..2.2e9;
const LONGEST: f64 = 86_400.0;
const MILLISECONDS: f64 = 1000.0;

/// No log is longer: a number that is further from the others is no time.
const YEAR: f64 = 366.0 * LONGEST;

/// Memory moves by pages, on a card by blocks of 256.
const BLOCK: f64 = 256.0;

/// Which number of each line is such a time, counted from its first, and about when that is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    place: usize,
    around: f64,
}

/// The place where most lines have such a number, if they run as times do.
pub(super) fn find(text: &str) -> Option<Stamp> {
    let lines: Vec<(&str, Vec<Found<'_>>)> = text
        .lines()
        .filter(|line| line.len() < 10_000)
        .map(|line| (line, numbers::scan(line)))
        .filter(|(_, found)| !found.is_empty())
        .take(SNIFFED)
        .collect();
    let mut told: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (line, found) in &lines {
        for place in 0..found.len() {
            if let Some(value) = seconds(&found[place]).filter(|_| !has_own_name(line, found, place)) {
                told.entry(place).or_default().push(value);
            }
        }
    }
    let mut told: Vec<(usize, Vec<f64>)> = told.into_iter().collect();
    told.sort_by_key(|(_, values)| Reverse(values.len()));
    told.into_iter().find_map(|(place, mut values)| {
        let around = middle(&values);
        values.retain(|value| (value - around).abs() < YEAR);
        let each = values.len() >= FEWEST_LINES && values.len() * 10 >= lines.len() * 9;
        (each && run(&values)).then_some(Stamp { place, around })
    })
}

/// Whether values run as times do: forward, by less than a day, and not by blocks of memory.
fn run(values: &[f64]) -> bool {
    let steps = || values.windows(2).map(|pair| pair[1] - pair[0]);
    let forward = steps().all(|step| (0.0..=LONGEST).contains(&step)) && steps().any(|step| step > 0.0);
    forward && !steps().all(|step| step % BLOCK == 0.0)
}

fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Whether a word before a number is the name of that number. The name of a clock is none that forbids a time, nor is who
/// wrote the line (`gpu01`, `INFO`), nor a name whose own number stands right behind (`put sys.mem.used 1741078800 3e9`).
fn has_own_name(line: &str, found: &[Found<'_>], place: usize) -> bool {
    let item = &found[place];
    let blank = |from: usize, to: usize| line.get(from..to).is_some_and(|text| text.trim().is_empty());
    let writer = item.key.contains(|c: char| c.is_ascii_digit()) || item.key == item.key.to_uppercase();
    let apart = blank(item.key_at + item.key.len(), item.at);
    let clock = clock::is_name(item.key) || item.key.eq_ignore_ascii_case("epoch");
    let behind = found.get(place + 1).is_some_and(|next| {
        next.key.is_empty() && !next.percent && blank(line.len() - item.rest.len(), next.at)
    });
    !(item.key.is_empty() || clock || apart && (writer || behind))
}

/// The seconds since 1970 of a whole number that may be them.
fn seconds(item: &Found<'_>) -> Option<f64> {
    let plain = item.unit.is_none() && !item.signed && !item.percent && item.value.fract() == 0.0;
    let bare = item.rest.starts_with([' ', '\t']);
    [item.value, item.value / MILLISECONDS].into_iter().find(|value| plain && bare && SECONDS.contains(value))
}

/// Takes the time out of the numbers of a line; the next has its name.
pub(super) fn take(found: &mut Vec<Found<'_>>, stamp: Stamp) -> Option<f64> {
    let told = seconds(found.get(stamp.place)?).filter(|told| (told - stamp.around).abs() < YEAR)?;
    let time = found.remove(stamp.place);
    if let Some(next) = found.get_mut(stamp.place).filter(|next| next.key.is_empty()) {
        (next.key, next.key_at) = (time.key, time.key_at);
    }
    Some(told)
}
