//! A curve that fell once, for good: what was before says nothing of what came after.
//!
//! Why: a model that is loaded twice and let go once, a first data set that is dropped, a container that started again. No shape of
//! growth has such a fall in it, and beside it a rise looks small. Where restarts are told, the falls are those. Rows of falls are
//! waves and teeth, and not looked at here.

use crate::facts::Line;
use crate::floor::{Floor, quantile};
use crate::series::Series;

/// A fall is this part of all that the floor moved, at the least, ...
const WORTH: f64 = 0.25;
/// ... so many times what neighbouring points of the floor differ by, ...
const ABOVE_NOISE: f64 = 4.0;
/// ... and all others together are less than this part of it.
const ONLY: f64 = 0.5;
/// The part of the curve that comes after it.
const AFTER: f64 = 0.25;
/// What rose before it at this part of the pace that came after is a tooth of a saw, or an earlier life.
const ALIKE: f64 = 0.3;
/// ... unless what came after rose so many times as far as it fell.
const BEYOND: f64 = 1.5;
/// Points of the floor that show a pace.
const SHOWS: usize = 3;

/// The one fall of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fall {
    /// Where the floor had come down, and from which level to which.
    pub(crate) x: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Whether it rose before as it does now, and has not risen far beyond where it fell from: then it may fall again.
    pub(crate) again: bool,
}

impl Fall {
    pub(crate) fn of(floor: &Floor) -> Option<Self> {
        let down: Vec<f64> = floor.y.windows(2).map(|w| (w[0] - w[1]).max(0.0)).collect();
        let (at, _) = down.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
        // One that took several points is one.
        let fell = |at: &usize| down[*at] > 0.0;
        let from = (0..at).rev().take_while(fell).last().unwrap_or(at);
        let to = (at..down.len()).take_while(fell).last()?;
        let all: f64 = down.iter().sum();
        let this: f64 = down[from..=to].iter().sum();
        let deep = this >= WORTH * floor.range() && this >= ABOVE_NOISE * usual(&down);
        let late = floor.unit().get(to + 1).is_none_or(|u| *u > 1.0 - AFTER);
        (deep && !late && all - this < ONLY * this).then(|| Self::at(floor, from, to + 1))
    }

    /// The fall from one point of the floor to another.
    fn at(floor: &Floor, top: usize, low: usize) -> Self {
        let fall = Self { x: floor.x[low], from: floor.y[top], to: floor.y[low], again: false };
        let beyond = floor.y.last().is_some_and(|end| *end >= fall.beyond());
        Self { again: rose_alike(floor, top, low) && !beyond, ..fall }
    }

    /// The level at which it rises no more as it did before it fell.
    pub(crate) fn beyond(&self) -> f64 {
        BEYOND.mul_add(self.from - self.to, self.to)
    }
}

/// What the floor comes down by, usually.
fn usual(down: &[f64]) -> f64 {
    quantile(&mut down.to_vec(), 0.75)
}

/// Whether the floor rose up to point `top` as it rises from point `low` on.
fn rose_alike(floor: &Floor, top: usize, low: usize) -> bool {
    let points: Vec<(f64, f64)> = floor.x.iter().copied().zip(floor.y.iter().copied()).collect();
    let (before, after) = (&points[..=top], &points[low..]);
    let pace = |points: &[(f64, f64)]| Line::through(points).filter(|_| points.len() >= SHOWS);
    let (Some(before), Some(after)) = (pace(before), pace(after)) else { return false };
    before.rate > ALIKE * after.rate && before.rate > before.margin
}

/// Where the curve holds restarts: where it is told, else where it falls.
pub(crate) fn restarts(series: &Series, count: usize, places: &[f64]) -> Vec<usize> {
    let bins = series.bins();
    if places.is_empty() {
        return if count > 0 { drops(series, count) } else { Vec::new() };
    }
    let told = places.iter().map(|at| bins.partition_point(|bin| bin.x_first < *at));
    let mut cuts: Vec<usize> = told.filter(|cut| (1..bins.len()).contains(cut)).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Where the process came back smaller: the `count` largest falls of the floor, each at least a fifth of its range
/// after the start. The floor, because the end of every spike is a fall of the raw curve.
fn drops(series: &Series, count: usize) -> Vec<usize> {
    let (floor, bins) = (Floor::of(series), series.bins());
    let started = floor.y.iter().skip(floor.len() / 10).copied();
    let range = started.clone().fold(f64::NEG_INFINITY, f64::max) - started.fold(f64::INFINITY, f64::min);
    let mut falls: Vec<(f64, usize)> =
        floor.y.windows(2).enumerate().map(|(i, w)| (w[0] - w[1], i)).filter(|f| f.0 > 0.2 * range).collect();
    falls.sort_by(|a, b| b.0.total_cmp(&a.0));
    let steepest = |i: usize| {
        let (a, b) = (floor.x[i.saturating_sub(1)], floor.x[(i + 2).min(floor.len() - 1)]);
        let inside = (1..bins.len()).filter(|&k| (a..=b).contains(&bins[k].x()));
        inside.max_by(|&p, &q| (bins[p - 1].last - bins[p].low).total_cmp(&(bins[q - 1].last - bins[q].low)))
    };
    let mut cuts: Vec<usize> = falls.iter().take(count).filter_map(|f| steepest(f.1)).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(level: impl Fn(f64) -> f64) -> Floor {
        let x: Vec<f64> = (0..36).map(f64::from).collect();
        Floor { y: x.iter().map(|x| level(*x)).collect(), x, ..Floor::default() }
    }

    #[test]
    fn a_start_that_is_let_go_is_the_one_fall() {
        let found = Fall::of(&floor(|x| if x < 5.0 { 900.0 } else { 10.0 * x }));
        assert_eq!(found, Some(Fall { x: 5.0, from: 900.0, to: 50.0, again: false }));
        let slow =
            Fall::of(&floor(|x| if x < 5.0 { 900.0 } else { (900.0 - 250.0 * (x - 4.0)).max(10.0 * x) }));
        assert!(slow.is_some_and(|fall| fall.x >= 7.0 && !fall.again), "{slow:?}");
    }

    #[test]
    fn a_tooth_before_it_may_come_again() {
        let found = Fall::of(&floor(|x| 10.0 * if x < 17.0 { x } else { x - 17.0 }));
        assert_eq!(found, Some(Fall { x: 17.0, from: 160.0, to: 0.0, again: true }));
        let beyond = Fall::of(&floor(|x| 10.0 * if x < 10.0 { x } else { x - 10.0 }));
        assert!(beyond.is_some_and(|fall| !fall.again), "{beyond:?}");
    }

    #[test]
    fn rows_of_falls_and_one_at_the_end_are_none() {
        assert_eq!(Fall::of(&floor(|x| 10.0 * (x % 9.0))), None);
        assert_eq!(Fall::of(&floor(|x| if x < 30.0 { 10.0 * x } else { 0.0 })), None);
        assert_eq!(Fall::of(&floor(|x| 10.0 * x)), None);
        assert_eq!(Fall::of(&Floor::default()), None);
    }
}
