//! `atop -P MEM`: a line each time, its sizes in pages.

use super::super::{Attempt, Hints, times};
use super::Rounds;
use lowtide_model::Metric;

const NO_ATOP: &str = "no lines `MEM host epoch date time seconds pagesize ...`";

/// `MEM gpu01 1741078800 2025/03/04 09:00:00 60 4096 32000000 15000000 7000000 50000 ...`: after the time the seconds
/// between two, the size of a page, and pages: all, free, page cache, buffers.
pub(super) fn read(text: &str, _: &Hints) -> Attempt {
    let mut rounds = Rounds::default();
    for line in text.lines().filter(|line| line.starts_with("MEM ")) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let at =
            |at: usize| cells.get(at).and_then(|cell| cell.parse::<u64>().ok()).map(|value| value as f64);
        let time = cells.get(2).and_then(|cell| times::epoch(cell));
        let sizes = [6, 7, 8, 9, 10].map(at);
        let (Some(time), [Some(page), Some(all), Some(free), Some(cache), Some(buffers)]) = (time, sizes)
        else {
            // A line that was cut.
            continue;
        };
        rounds.now = Some(time);
        rounds.add("", (all - free - cache - buffers) * page, Some(all * page));
    }
    if rounds.lines.is_empty() {
        return Err(NO_ATOP.into());
    }
    Ok(rounds
        .curves(&Metric::Host, "the whole machine by atop, in pages: all but free, page cache and buffers"))
}
