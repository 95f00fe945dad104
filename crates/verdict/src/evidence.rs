//! Weighs whether a rise goes on: one number, the logarithm of its odds.
//!
//! A rise that will stop and one that will not look alike in their first part, so the answer is never yes or no but
//! how much speaks for it. Four things do: how clearly the shapes say that it rises, how little its pace falls, how
//! exactly that pace is known, and, for a rise from the very first sample, how long it has been seen: the first pass
//! over data nobody told us of is a straight line too. The weights were learned once, by logistic regression over
//! prefixes of made curves (see docs/verdict.md); each has the sign it must have.
//!
//! While more samples will come there are two ways to be wrong, and they add up: the rise bends and it cannot be seen
//! yet, or it is as straight as it looks and stops all the same, as a bounded cache does. No exactness helps against
//! the second, only length. Not here: what follows (`assess`).

use crate::decide::{LATE_BEND, START, Stand, stand};
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
/// While more will come: the odds that a straight line does not stop, at `FIRST_PASS` samples and per natural logarithm
/// of more of them, ...
const NO_STOP: f64 = 2.4;
const NO_STOP_BY_LENGTH: f64 = 1.5;
/// ... of one from the very first sample, which may be the first pass over the data, ...
const NO_STOP_FROM_START: f64 = -1.5;
/// ... and, per part of the curve, for a first fast part that outlasts the start of a program and goes over into the
/// slower one without a rest: what slowed down once is likely to do so again.
const BY_LATE_RAMP: f64 = -2.0;
/// No weight of shapes is surer than this, and no pace is known better.
const SUREST: f64 = 0.01;

/// What speaks for a rise that goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Evidence {
    /// Natural logarithm of the odds that it goes on, when all there will be was seen ...
    pub(crate) log_odds: f64,
    /// ... and while more samples will come.
    pub(crate) so_far: f64,
    /// How its pace changes.
    pub(crate) bend: Bend,
    seen: Seen,
}

/// What is seen of a rise beside its pace.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    /// Natural logarithm of the odds that it rises, as the shapes say.
    shapes: f64,
    /// Whether it rises from the very first sample.
    from_start: bool,
    /// The part of the curve that a first, faster part took, without a rest after it.
    ramp: f64,
    samples: u64,
}

impl Evidence {
    fn of(bend: Bend, seen: Seen) -> Self {
        let mut straight = BY_SHAPES.mul_add(seen.shapes, PRIOR);
        straight += BY_BEND * (bend.value / bend.error.hypot(STRAIGHTEST)).clamp(-MOST_ERRORS, 0.0);
        straight += BY_ERROR * (bend.error + SUREST).ln();
        let length = (seen.samples as f64 / FIRST_PASS).ln();
        let from_start = f64::from(u8::from(seen.from_start));
        let log_odds = from_start.mul_add(BY_LENGTH.mul_add(length, FROM_START), straight);
        let no_bend = BY_LATE_RAMP.mul_add((seen.ramp - START).max(0.0), straight);
        let no_stop = NO_STOP_FROM_START.mul_add(from_start, NO_STOP_BY_LENGTH.mul_add(length, NO_STOP));
        // The odds against the two ways to be wrong add up.
        let so_far = -((-no_bend).exp() + (-no_stop).exp()).ln();
        Self { log_odds, so_far, bend, seen }
    }

    /// What two lives of one program say together: their paces are measured twice. The longer one says how much of a
    /// first pass was seen, because each life begins it anew.
    pub(crate) fn with(self, other: Self) -> Self {
        let surest = ((1.0 + SUREST) / SUREST).ln();
        let (a, b) = (self.seen, other.seen);
        let seen = Seen {
            shapes: (a.shapes + b.shapes).clamp(-surest, surest),
            from_start: a.from_start || b.from_start,
            ramp: a.ramp.max(b.ramp),
            samples: a.samples.max(b.samples),
        };
        Self::of(self.bend.pooled(other.bend), seen)
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
    let ramp = if rests(best.shape) { 0.0 } else { from };
    Some(Evidence::of(bend, Seen { shapes, from_start: from <= 0.0, ramp, samples }))
}

/// Whether the rise that is still alive began after a rest.
const fn rests(shape: Shape) -> bool {
    matches!(shape, Shape::Late | Shape::RampLate | Shape::Rise)
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
        let seen = Seen { shapes: 2.0, from_start: false, ramp: 0.0, samples: 50 };
        let life = |value: f64| Evidence::of(Bend { value, error: 0.1 }, seen);
        let straight = life(0.0);
        assert!(straight.with(life(0.0)).log_odds > straight.log_odds + 0.2);
        assert!(straight.with(life(-0.3)).log_odds < straight.log_odds);
    }

    #[test]
    fn while_more_will_come_only_length_makes_a_straight_line_a_leak() {
        let exact = Bend { value: 0.0, error: 0.0 };
        let so_far = |samples: u64, from_start: bool, ramp: f64| {
            Evidence::of(exact, Seen { shapes: 4.6, from_start, ramp, samples }).so_far
        };
        let lengths = [10, 30, 60, 120, 1000].map(|samples| so_far(samples, false, 0.0));
        assert!(lengths.windows(2).all(|pair| pair[0] < pair[1]), "{lengths:?}");
        assert!(lengths[0] < 0.0 && lengths[4] > 3.0, "{lengths:?}");
        assert!(
            so_far(120, true, 0.0) < so_far(120, false, 0.0),
            "the first pass over the data is straight too"
        );
        assert!(so_far(120, false, 0.35) < so_far(120, false, 0.05), "what slowed down late may do so again");
    }
}
