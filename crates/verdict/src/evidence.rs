//! Weighs whether a rise goes on: one number, the logarithm of its odds.
//!
//! A rise that will stop and one that will not look alike in their first part, so the answer is never yes or no but
//! how much speaks for it. Four things do: how clearly the shapes say that it rises, how little its pace falls, how
//! exactly that pace is known, and, for a rise from the very first sample, how long it has been seen: the first pass
//! over data nobody told us of is a straight line too. The weights were learned once, by logistic regression over
//! prefixes of made curves (see docs/verdict.md); each has the sign it must have. Not here: what follows (`assess`).

use crate::decide::{LATE_BEND, Stand, stand};
use crate::floor::Floor;
use crate::shapes::{Fit, Shape};
use crate::straight::Bend;

/// Before anything is seen.
const PRIOR: f64 = -0.86;
/// For the shapes' own log-odds of a rise. They count a quarter: the shapes are drawn through the same points.
const BY_SHAPES: f64 = 0.24;
/// For a pace that falls: per standard error by which it does. Six are as many as can be believed.
const BY_BEND: f64 = 0.72;
const MOST_ERRORS: f64 = 6.0;
/// No rise is straighter than this: a leak under a warm-up bends a little too.
const STRAIGHTEST: f64 = 0.02;
/// For a pace that is known exactly: per natural logarithm of its error (a Bayes factor would have -1).
const BY_ERROR: f64 = -0.93;
/// For a rise from the very first sample: at `FIRST_PASS` samples, and per natural logarithm of more of them.
const FROM_START: f64 = -0.42;
const BY_LENGTH: f64 = 0.38;
const FIRST_PASS: f64 = 60.0;
/// No weight of shapes is surer than this, and no pace is known better.
const SUREST: f64 = 0.01;

/// What speaks for a rise that goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Evidence {
    /// Natural logarithm of the odds that it goes on.
    pub(crate) log_odds: f64,
    /// How its pace changes.
    pub(crate) bend: Bend,
    /// Whether it rises from the very first sample.
    pub(crate) from_start: bool,
    /// Natural logarithm of the odds that it rises, as the shapes say.
    shapes: f64,
    samples: u64,
}

impl Evidence {
    fn of(bend: Bend, shapes: f64, from_start: bool, samples: u64) -> Self {
        let mut log_odds = BY_SHAPES.mul_add(shapes, PRIOR);
        log_odds += BY_BEND * (bend.value / bend.error.hypot(STRAIGHTEST)).clamp(-MOST_ERRORS, 0.0);
        log_odds += BY_ERROR * (bend.error + SUREST).ln();
        if from_start {
            log_odds += BY_LENGTH.mul_add((samples as f64 / FIRST_PASS).ln(), FROM_START);
        }
        Self { log_odds, bend, from_start, shapes, samples }
    }

    /// What two lives of one program say together: their paces are measured twice. The longer one says how much of a
    /// first pass was seen, because each life begins it anew.
    pub(crate) fn with(self, other: Self) -> Self {
        let surest = ((1.0 + SUREST) / SUREST).ln();
        let shapes = (self.shapes + other.shapes).clamp(-surest, surest);
        let from_start = self.from_start || other.from_start;
        Self::of(self.bend.pooled(other.bend), shapes, from_start, self.samples.max(other.samples))
    }
}

/// `None` where no shape that rises to the end fits at all.
pub(crate) fn goes_on(floor: &Floor, fits: &[Fit], rising: f64, samples: u64) -> Option<Evidence> {
    let best = fits.iter().find(|f| stand(f) == Stand::Rising)?;
    let (from, to) = rising_part(best);
    let part: Vec<(f64, f64)> = floor
        .unit()
        .into_iter()
        .zip(floor.y.iter().copied())
        .filter(|p| (from..=to).contains(&p.0))
        .collect();
    let bend = Bend::of(&part)?;
    let shapes = ((rising + SUREST) / (1.0 - rising + SUREST)).ln();
    Some(Evidence::of(bend, shapes, from <= 0.0, samples))
}

/// Where the rise that is still alive begins and ends, in 0..1.
fn rising_part(fit: &Fit) -> (f64, f64) {
    let [a, b] = fit.knots;
    let early = |c: f64| if c < LATE_BEND { c } else { 0.0 };
    match fit.shape {
        Shape::RampLine => (early(a), 1.0),
        Shape::Late => (a, 1.0),
        Shape::RampLate => (b, 1.0),
        Shape::SaturationLine => ((3.0 * a).min(LATE_BEND), 1.0),
        Shape::Rise => (a, b),
        Shape::TwoStage => (early(a), b),
        Shape::Knee | Shape::KneeFalling => (0.0, a),
        Shape::Flat
        | Shape::Drop
        | Shape::Falling
        | Shape::Step
        | Shape::RampStep
        | Shape::Line
        | Shape::Accelerating
        | Shape::Saturation
        | Shape::RampSaturation
        | Shape::Logarithm => (0.0, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_life_that_rises_alike_adds_to_the_odds_and_one_that_bends_takes_from_them() {
        let life = |value: f64| Evidence::of(Bend { value, error: 0.1 }, 2.0, false, 50);
        let straight = life(0.0);
        assert!(straight.with(life(0.0)).log_odds > straight.log_odds + 0.2);
        assert!(straight.with(life(-0.3)).log_odds < straight.log_odds);
    }
}
