//! A time since 1970 that stands among the numbers of each line without a name: `put sys.mem.used 1741078800 3000000000`.
//!
//! As bytes it would be a memory of 1.7 GB that grows by a few bytes each time, which no memory does.

use super::super::numbers::{self, Found};

/// Lines that are looked at.
const SNIFFED: usize = 200;
const FEWEST_LINES: usize = 5;

/// Seconds since 1970 in our time, and how many a line may come after the one before.
const SECONDS: std::ops::Range<f64> = 1e9..2.2e9;
const LONGEST: f64 = 86_400.0;
const MILLISECONDS: f64 = 1000.0;

/// Which number of each line is such a time, counted from its first.
pub(super) fn place(text: &str) -> Option<usize> {
    let lines: Vec<Vec<Found<'_>>> = text
        .lines()
        .filter(|line| line.len() < 10_000)
        .map(numbers::scan)
        .filter(|found| !found.is_empty())
        .take(SNIFFED)
        .collect();
    let first = lines.iter().find_map(|found| found.iter().position(|item| seconds(item).is_some()))?;
    let told: Vec<f64> = lines.iter().filter_map(|found| seconds(found.get(first)?)).collect();
    let steps = || told.windows(2).map(|pair| pair[1] - pair[0]);
    let forward = steps().all(|step| (0.0..=LONGEST).contains(&step)) && steps().any(|step| step > 0.0);
    // Memory moves by pages.
    let pages = steps().all(|step| step % 512.0 == 0.0);
    let each = told.len() >= FEWEST_LINES && told.len() * 10 >= lines.len() * 9;
    (each && forward && !pages).then_some(first)
}

/// The seconds since 1970 of a whole number that may be them.
fn seconds(item: &Found<'_>) -> Option<f64> {
    let plain = item.unit.is_none() && !item.signed && !item.percent && item.value.fract() == 0.0;
    // A name of its own says what it is.
    let bare = item.rest.starts_with([' ', '\t']);
    [item.value, item.value / MILLISECONDS].into_iter().find(|value| plain && bare && SECONDS.contains(value))
}

/// Takes the time out of the numbers of a line; the next has its name.
pub(super) fn take(found: &mut Vec<Found<'_>>, place: usize) -> Option<f64> {
    let told = seconds(found.get(place)?)?;
    let stamp = found.remove(place);
    if let Some(next) = found.get_mut(place).filter(|next| next.key.is_empty()) {
        (next.key, next.key_at) = (stamp.key, stamp.key_at);
    }
    Some(told)
}
