//! Tests whether growth happens at known events (each evaluation, each save) or between them.
//!
//! Evaluations repeat the same examples, so memory that stays after each of them is no cache being filled: it is
//! kept results. A straight line through such a staircase would prove nothing; the alignment does.

use crate::floor::quantile;
use crate::series::{Bin, Series};

/// A stretch between two events must hold this many samples to show a level in each of its halves.
const SHORTEST: usize = 5;
/// Fewer events than this can line up with anything.
const FEWEST: usize = 4;
/// Of all growth since the first event, this part must happen across the events. A line that ignores them puts about half
/// there, because levels are taken over halves of the stretches between events.
const ACROSS: f64 = 0.85;
/// Of all growth, this part lies within the halves of the stretches between events if these do not matter: half is expected.
const IGNORED: f64 = 0.25;
/// The later half of the events must bring at least this part, or it was a warm-up that evaluations happened in: a pace
/// that stays brings half.
const LATER: f64 = 0.35;
/// A stretch that grows within itself by this part of what an event keeps belongs to the start.
const STARTS: f64 = 0.3;
/// Of events that keep as much each time the later half brings this part, at the least, where they are of equal number, ...
const STEADY: f64 = 0.42;
/// ... their mean is so many standard errors above nothing, ...
const SURELY: f64 = 4.0;
/// ... there are so many, ...
const FEWEST_LATER: usize = 5;
/// ... and no more of what they bring goes again than this leaves.
const FALLS: f64 = 1.2;
/// The mean of the jumps must be this many standard errors above nothing, with as few events as `FEWEST`.
const SURE: f64 = 3.0;
/// Of five events, so many must leave the floor higher.
const ROSE_OF_FIVE: usize = 4;
/// The whole growth must be this many times what the levels scatter by.
const ABOVE_SCATTER: f64 = 4.0;

/// Growth that lines up with events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EventGrowth {
    /// How many events were compared.
    pub(crate) events: usize,
    /// After how many of them the floor was higher.
    pub(crate) rose: usize,
    /// What one event keeps.
    pub(crate) each: f64,
    /// Part of the growth that happened across events.
    pub(crate) across: f64,
    /// The most of it that may have happened between them, in units of all: a line that ignores the events has half there.
    pub(crate) between: f64,
    /// Whether the later events keep as much as the earlier ones, beyond doubt: what fills a cache or a pool keeps ever less.
    pub(crate) steady: bool,
}

/// Whether the floor grows between the given places about as much as a line that ignores them would, beyond chance.
pub(crate) fn grows_between(series: &Series, places: &[f64]) -> bool {
    let levels = levels(series.bins(), places);
    let between: Vec<f64> = levels.iter().skip(1).map(|l| l.1 - l.0).collect();
    let n = between.len() as f64;
    let (Some(first), Some(last)) = (levels.first(), levels.last()) else { return false };
    let within: f64 = between.iter().sum();
    let strays: f64 = between.iter().map(|b| (b - within / n).powi(2)).sum::<f64>() * n / (n - 1.0);
    within - 2.0 * strays.sqrt() > IGNORED * (last.1 - first.1)
}

/// What the floor does at the given places. `None` when there are too few, or it does not grow there. Where the program's start
/// takes several events, counted from the first of them after it.
pub(crate) fn at_events(series: &Series, places: &[f64]) -> Option<EventGrowth> {
    let levels = levels(series.bins(), places);
    lines_up(&levels).map(|found| EventGrowth { steady: false, ..found }).or_else(|| {
        let started = after_start(&levels)?;
        lines_up(&levels[started..]).filter(|found| found.steady)
    })
}

/// The first stretch that the program's start does not reach: the ones before it grow within themselves, as no evaluation can have them do.
fn after_start(levels: &[(f64, f64)]) -> Option<usize> {
    let half = levels.len() / 2;
    let mut jumps: Vec<f64> = levels[half.saturating_sub(1)..].windows(2).map(|w| w[1].0 - w[0].1).collect();
    let usual = quantile(&mut jumps, 0.5);
    let last = levels[..half].iter().rposition(|l| l.1 - l.0 > STARTS * usual)?;
    Some(last + 1)
}

/// The same of some stretches, all events between them counted.
fn lines_up(levels: &[(f64, f64)]) -> Option<EventGrowth> {
    let events = levels.len().checked_sub(1).filter(|&n| n >= FEWEST)?;
    let mut jumps: Vec<f64> = levels.windows(2).map(|w| w[1].0 - w[0].1).collect();
    tame_largest(&mut jumps);
    // What rose before the first event is the start of the program, and no event could have kept it.
    let between = || levels.iter().skip(1).map(|l| l.1 - l.0);
    let within: f64 = between().sum();
    let all: f64 = jumps.iter().sum();
    let grown = all + within;
    let mut spread: Vec<f64> = between().map(f64::abs).collect();
    let scatter = quantile(&mut spread, 0.5);
    if grown <= 0.0 || grown < ABOVE_SCATTER * scatter {
        return None;
    }
    let later: f64 = jumps[events / 2..].iter().sum();
    let mean = all / events as f64;
    let variance = jumps.iter().map(|j| (j - mean).powi(2)).sum::<f64>() / (events - 1) as f64;
    let error = (variance / events as f64).sqrt();
    if mean < SURE * error {
        return None;
    }
    let rose = jumps.iter().filter(|&&j| j > 0.0).count();
    let lowest = jumps.iter().copied().fold(f64::INFINITY, f64::min);
    let even = later >= STEADY * 2.0 * (1.0 - (events / 2) as f64 / events as f64) * all;
    let sure = events >= FEWEST_LATER && mean >= SURELY * error && all <= FALLS * grown;
    let steady = even && sure && lowest > between().fold(0.0, f64::max);
    let strays = between().map(|b| (b - within / events as f64).powi(2)).sum::<f64>() * events as f64
        / (events - 1) as f64;
    let between = SURE.mul_add(strays.sqrt(), within) / grown;
    let found = EventGrowth { events, rose, each: mean, across: (all / grown).min(1.0), between, steady };
    (found.across >= ACROSS && later >= LATER * all && 5 * rose >= ROSE_OF_FIVE * events).then_some(found)
}

/// How many stretches between the places have enough samples to show a level.
pub(crate) fn resolved(series: &Series, places: &[f64]) -> usize {
    levels(series.bins(), places).len()
}

/// What is let go at each place after it came between them: the teeth of a saw. `None` when the floor just rises.
pub(crate) fn saw_tooth(series: &Series, places: &[f64]) -> Option<f64> {
    let levels = levels(series.bins(), places);
    let events = levels.len().checked_sub(1).filter(|&n| n >= FEWEST)?;
    let mut falls: Vec<f64> = levels.windows(2).map(|w| w[0].1 - w[1].0).collect();
    let mut rises: Vec<f64> = levels.iter().map(|l| l.1 - l.0).collect();
    let (first, last) = (levels.first()?.0, levels.last()?.0);
    let always = falls.iter().filter(|fall| **fall > 0.0).count();
    let (fall, rise) = (quantile(&mut falls, 0.5), quantile(&mut rises, 0.5));
    let spread = quantile(&mut falls, 0.84) - quantile(&mut falls, 0.16);
    let clear =
        fall > spread.max(0.0) && fall > 0.5 * rise && (last - first).abs() < fall * events as f64 / 4.0;
    (clear && rise > 0.0 && 5 * always >= 4 * events).then_some(fall)
}

/// The first evaluation also loads code and sizes buffers: one jump may not speak for all.
fn tame_largest(jumps: &mut [f64]) {
    let Some((at, _)) = jumps.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)) else {
        return;
    };
    let second = jumps.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, j)| *j).fold(0.0, f64::max);
    jumps[at] = jumps[at].min(second);
}

/// The floor in the first and in the second half of each stretch between two events.
fn levels(bins: &[Bin], places: &[f64]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        return Vec::new();
    };
    let mut edges: Vec<f64> =
        places.iter().copied().filter(|p| *p > first.x_first && *p <= last.x_last).collect();
    edges.sort_unstable_by(f64::total_cmp);
    edges.dedup();
    edges.push(f64::INFINITY);
    let (mut rest, mut out) = (bins, Vec::new());
    let (mut before, mut event) = (0, None);
    for edge in edges {
        let cut = rest.partition_point(|b| b.x() < edge);
        let (stretch, later) = rest.split_at(cut);
        rest = later;
        // The last stretch is not over: while it is short it shows the event itself, not the floor after it.
        let over = edge.is_finite() || 2 * stretch.len() >= before;
        before = stretch.len();
        // What was seen at the event itself may still show what was before it: one sample, or all that have its place.
        let at = event.map_or(0, |event| stretch.partition_point(|b| b.x() <= event).max(1));
        let settled = stretch.get(at..).unwrap_or_default();
        if settled.len() + at.min(1) >= SHORTEST && over {
            let (a, b) = settled.split_at(settled.len() / 2);
            out.push((low(a), low(b)));
        }
        event = Some(edge);
    }
    out
}

/// The lowest level: an evaluation's own buffers may fill most of the half that follows it.
fn low(bins: &[Bin]) -> f64 {
    bins.iter().map(|b| b.low).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Point;

    fn series(level: impl Fn(f64) -> f64) -> Series {
        let mut series = Series::new(512);
        (0..200).map(f64::from).for_each(|x| series.push(Point::one(x, level(x))));
        series
    }

    #[test]
    fn the_start_of_the_program_does_not_hide_what_each_evaluation_keeps() {
        let places: Vec<f64> = (1..10).map(|event| f64::from(event) * 20.0).collect();
        let start = |x: f64| 500.0 * x.min(8.0);
        let kept = at_events(&series(|x| 3.0f64.mul_add((x / 20.0).floor(), start(x))), &places);
        assert!(kept.is_some_and(|kept| (kept.each - 3.0).abs() < 0.1), "{kept:?}");
        let straight = at_events(&series(|x| 3.0f64.mul_add(x / 20.0, start(x))), &places);
        assert_eq!(straight, None, "growth that ignores evaluations");
    }

    #[test]
    fn a_start_that_takes_several_evaluations_does_not_hide_what_each_keeps() {
        let places: Vec<f64> = (1..14).map(|event| f64::from(event) * 14.0).collect();
        let start = |x: f64| 90.0 * (1.0 - (-x / 15.0).exp());
        let noise = |x: f64| 0.2 * (x * 1.7).sin();
        let keeps = |each: f64| series(move |x| each.mul_add((x / 14.0).floor(), start(x) + noise(x)));
        let kept = at_events(&keeps(3.0), &places);
        assert!(kept.is_some_and(|kept| kept.steady && (kept.each - 3.0).abs() < 0.3), "{kept:?}");
        assert_eq!(at_events(&keeps(0.0), &places), None, "nothing but the start");
        let fills = |x: f64| 60.0 * (1.0 - 0.6f64.powf((x / 14.0).floor()));
        assert_eq!(
            at_events(&series(|x| fills(x) + start(x)), &places),
            None,
            "each keeps less than the one before"
        );
        let teeth = |x: f64| 8.0 * ((x / 14.0).floor() - x / 14.0);
        assert_eq!(at_events(&series(teeth), &places), None, "what each brings goes before the next one");
    }

    #[test]
    fn an_evaluation_that_is_not_over_says_nothing_of_what_stays_after_it() {
        let places: Vec<f64> = (0..8).map(|event| f64::from(event).mul_add(27.0, 4.0)).collect();
        let evaluates = |x: f64| if (x - 4.0).rem_euclid(27.0) < 4.0 { 900.0 } else { 0.0 };
        let fill = at_events(&series(|x| 5.0f64.mul_add(x, evaluates(x))), &places);
        assert_eq!(fill, None, "a line that ends seven samples after an evaluation began");
    }
}
