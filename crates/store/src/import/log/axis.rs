//! What the x of a log is: the step, the epoch, the time, or only the number of the line.
//!
//! A word on a line is an axis only if it orders the lines: one that stands still, or goes up and down (`time: 0.612` is
//! how long a step took), is passed over for the next, and the notes say so.

use super::super::Hints;
use super::super::times::{self, Moment};
use super::FEWEST_POINTS;
use super::clock;
use super::line::Point;
use lowtide_model::Axis;
use std::collections::BTreeSet;

/// Where the points of a log stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Asked,
    Step,
    Epoch,
    Seconds,
    Moment,
    Line,
}

/// The best first.
const PLACES: [Place; 4] = [Place::Step, Place::Epoch, Place::Seconds, Place::Moment];

impl Place {
    pub(super) fn axis(self) -> Axis {
        match self {
            Self::Asked | Self::Step => Axis::Step,
            Self::Epoch => Axis::Epoch,
            Self::Seconds | Self::Moment => Axis::Seconds,
            Self::Line => Axis::Sample,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Asked => "what was asked for",
            Self::Step => "the step",
            Self::Epoch => "the epoch",
            Self::Seconds => "the seconds",
            Self::Moment => "the time of day, as seconds since the first",
            Self::Line => "the number of the line",
        }
    }

    pub(super) fn has(self, point: &Point) -> bool {
        self == Self::Line || (self == Self::Moment && point.moment.is_some()) || self.of(point).is_some()
    }

    fn of(self, point: &Point) -> Option<f64> {
        match self {
            Self::Asked => point.asked,
            Self::Step => point.step,
            Self::Epoch => point.epoch,
            Self::Seconds => point.seconds,
            Self::Moment | Self::Line => None,
        }
    }

    fn all(self, points: &[&Point]) -> Vec<f64> {
        points.iter().map(|point| self.of(point).unwrap_or(f64::NAN)).collect()
    }

    /// What has to be known of the x of points that all have this place.
    pub(super) fn note(self, points: &[&Point]) -> Option<String> {
        let moments = || points.iter().filter_map(|point| point.moment).collect::<Vec<Moment>>();
        let first = points.first().and_then(|point| point.told_in);
        let told_in = || first.filter(|_| points.iter().all(|point| point.told_in == first));
        match self {
            Self::Moment => times::laid(&moments()).1,
            Self::Seconds => told_in().map(|unit| format!("the time is told in {unit}; x is in seconds")),
            Self::Asked | Self::Step | Self::Epoch | Self::Line => None,
        }
    }

    /// The x of points that all have this place.
    pub(super) fn x(self, points: &[&Point]) -> Vec<f64> {
        match self {
            Self::Moment => {
                times::since_first(&points.iter().filter_map(|point| point.moment).collect::<Vec<Moment>>())
            }
            Self::Line => (0..points.len()).map(|n| n as f64).collect(),
            Self::Seconds => since_the_first_if_1970(self.all(points)),
            Self::Asked | Self::Step | Self::Epoch => self.all(points),
        }
    }
}

/// Seconds from the first on, where the clock counts from 1970.
fn since_the_first_if_1970(mut x: Vec<f64>) -> Vec<f64> {
    let first = x.first().copied().filter(|first| *first >= times::SINCE_1970).unwrap_or(0.0);
    x.iter_mut().for_each(|x| *x -= first);
    x
}

/// What x is, and what was passed over for it.
pub(super) struct Chosen {
    pub(super) place: Place,
    pub(super) note: Option<String>,
}

/// A log that was exported with its newest line first, turned round: its times only fall.
pub(super) fn oldest_first(mut points: Vec<&Point>) -> Vec<&Point> {
    let x = values(&points, Place::Moment);
    let falls = x.windows(2).filter(|pair| pair[1] < pair[0]).count();
    if x.len() == points.len() && falls >= FEWEST_POINTS && x.windows(2).all(|pair| pair[1] <= pair[0]) {
        points.reverse();
    }
    points
}

/// A place that at least three lines have, and a tenth of them (prose and start-up lines around them have none), and
/// that orders them.
pub(super) fn choose(points: &[&Point], hints: &Hints) -> Chosen {
    if let Some(place) = asked(points, hints) {
        return Chosen { place, note: None };
    }
    let there = |place: &Place| {
        let count = points.iter().filter(|point| place.has(point)).count();
        count >= FEWEST_POINTS.min(points.len()) && count * 10 >= points.len()
    };
    let there: Vec<Place> = PLACES
        .into_iter()
        .filter(|place| there(place) && (*place != Place::Epoch || tells_lines_apart(points)))
        .collect();
    let place = there.iter().copied().find(|place| orders(points, *place));
    // Steps of many ranks at once come in no order, and still are steps.
    let moving = || there.iter().copied().find(|place| *place == Place::Step && extent(points, *place) > 0.0);
    let place = place.or_else(moving).unwrap_or(Place::Line);
    let passed = there.first().filter(|first| **first != place).copied();
    let note = passed.filter(|_| points.len() > 1).map(|passed| {
        let how = if extent(points, passed) > 0.0 { "goes up and down" } else { "stands still" };
        format!("{} {how}; it is not used as x", passed.words())
    });
    Chosen { place, note }
}

fn asked(points: &[&Point], hints: &Hints) -> Option<Place> {
    let timed = points.iter().filter(|point| point.seconds.is_some()).count() * 2 > points.len();
    match hints.x.as_deref().map(str::to_ascii_lowercase).as_deref() {
        Some("sample") => Some(Place::Line),
        Some(name) if timed && clock::is_name(name) => Some(Place::Seconds),
        Some(_) if points.iter().any(|point| point.asked.is_some()) => Some(Place::Asked),
        Some("step" | "steps") => Some(Place::Step),
        Some("epoch") => Some(Place::Epoch),
        Some("time" | "seconds") => Some(if timed { Place::Seconds } else { Place::Moment }),
        Some(_) | None => None,
    }
}

fn values(points: &[&Point], place: Place) -> Vec<f64> {
    place.x(&points.iter().filter(|point| place.has(point)).copied().collect::<Vec<_>>())
}

fn extent(points: &[&Point], place: Place) -> f64 {
    let x = values(points, place);
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max) - x.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Whether it moves, and mostly forward: a new run or a new epoch may fall back. Seconds that fall nearly as often as they
/// rise are how long a step took.
fn orders(points: &[&Point], place: Place) -> bool {
    let x = values(points, place);
    let falls = x.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let rises = x.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let forward = falls * 4 <= x.len() && (place != Place::Seconds || falls * 2 <= rises);
    x.len() < 2 || (extent(points, place) > 0.0 && forward)
}

/// An epoch that is the same on many lines orders nothing.
fn tells_lines_apart(points: &[&Point]) -> bool {
    let epochs: BTreeSet<u64> = points.iter().filter_map(|point| point.epoch.map(f64::to_bits)).collect();
    epochs.len() * 2 > points.len()
}
