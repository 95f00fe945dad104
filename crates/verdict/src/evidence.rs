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
//! the second: only how slow it is (how many samples it takes to move memory as far as it was ever seen to move) and
//! how its growth lies in time. Not here: what follows (`assess`).

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
/// While more will come: that a straight line does not stop which takes `FIRST_PASS` samples to move memory as far as it
/// ever moved, and per natural logarithm of more of them. What fills, fills fast; what leaks, leaks beside something larger.
const NO_STOP: f64 = -0.4;
const BY_SLOWNESS: f64 = 0.85;
/// For growth that lies late in the curve, as Laplace's test of a trend counts it, per standard error: what ratchets does
/// so ever more rarely. Four are as many as can be believed.
const BY_TREND: f64 = 0.5;
const MOST_TREND: f64 = 4.0;
/// A rise from the very first sample moved memory as far as it ever moved by itself: slowness says little of it.
const NO_STOP_FROM_START: f64 = 1.1;
/// A rise after a rest is no start and no first pass over the data.
const AFTER_REST: f64 = 1.0;
/// No weight of shapes is surer than this, and no pace is known better.
const SUREST: f64 = 0.01;
/// No rise is told to be a smaller part of what moved than this.
const SMALLEST: f64 = 0.005;

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
    /// Whether it began after a rest.
    after_rest: bool,
    /// The part it is of all that memory moved, waves and the start included.
    part: f64,
    /// How late the growth after the start lies, in standard errors.
    trend: f64,
    samples: u64,
}

impl Seen {
    /// The log-odds that a straight line like this does not stop.
    fn no_stop(&self) -> f64 {
        let given = |yes: bool, weight: f64| if yes { weight } else { 0.0 };
        let slowness = (self.samples as f64 / FIRST_PASS / self.part.max(SMALLEST)).ln();
        NO_STOP
            + BY_SLOWNESS * slowness
            + BY_TREND * self.trend.clamp(-MOST_TREND, MOST_TREND)
            + given(self.from_start, NO_STOP_FROM_START)
            + given(self.after_rest, AFTER_REST)
    }
}

impl Evidence {
    fn of(bend: Bend, seen: Seen) -> Self {
        let mut straight = BY_SHAPES.mul_add(seen.shapes, PRIOR);
        straight += BY_BEND * (bend.value / bend.error.hypot(STRAIGHTEST)).clamp(-MOST_ERRORS, 0.0);
        straight += BY_ERROR * (bend.error + SUREST).ln();
        let length = (seen.samples as f64 / FIRST_PASS).ln();
        let from_start = f64::from(u8::from(seen.from_start));
        let log_odds = from_start.mul_add(BY_LENGTH.mul_add(length, FROM_START), straight);
        let so_far = either(straight, seen.no_stop());
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
            after_rest: a.after_rest && b.after_rest,
            part: a.part.max(b.part),
            trend: (a.trend + b.trend) / 2_f64.sqrt(),
            samples: a.samples.max(b.samples),
        };
        Self::of(self.bend.pooled(other.bend), seen)
    }
}

/// The log-odds against two ways to be wrong: their odds add up.
fn either(one: f64, other: f64) -> f64 {
    -((-one).exp() + (-other).exp()).ln()
}

/// A curve as far as it was looked at.
pub(crate) struct Look<'a> {
    pub(crate) floor: &'a Floor,
    pub(crate) fits: &'a [Fit],
    /// The weight of shapes that rise to the end.
    pub(crate) rising: f64,
    pub(crate) samples: u64,
    /// Highest minus lowest sample, waves and the start included.
    pub(crate) moved: f64,
}

/// `None` where no shape that rises to the end fits at all.
pub(crate) fn goes_on(look: &Look) -> Option<Evidence> {
    let best = look.fits.iter().find(|f| stand(f) == Stand::Rising)?;
    let (from, to) = rising_part(best);
    let points: Vec<(f64, f64)> = look.floor.unit().into_iter().zip(look.floor.y.iter().copied()).collect();
    let alive: Vec<(f64, f64)> = points.iter().copied().filter(|p| (from..=to).contains(&p.0)).collect();
    let bend = Bend::of(&alive)?;
    let rise = alive.last()?.1 - alive.first()?.1;
    let seen = Seen {
        shapes: ((look.rising + SUREST) / (1.0 - look.rising + SUREST)).ln(),
        from_start: from <= 0.0,
        after_rest: rests(best.shape),
        part: if look.moved > 0.0 { rise / look.moved } else { 1.0 },
        trend: trend(&points),
        samples: look.samples,
    };
    Some(Evidence::of(bend, seen))
}

/// Laplace's test on the growth of the floor after the start: how many standard errors its middle lies behind the
/// middle of the time. Growth that comes in few large steps counts as few.
fn trend(points: &[(f64, f64)]) -> f64 {
    let later = &points[points.partition_point(|p| p.0 < START)..];
    let Some(&(from, _)) = later.first().filter(|first| first.0 < 1.0) else { return 0.0 };
    let grown = |w: &[(f64, f64)]| (w[1].1 - w[0].1).max(0.0);
    let at = |w: &[(f64, f64)]| (0.5 * (w[0].0 + w[1].0) - from) / (1.0 - from);
    let sum: f64 = later.windows(2).map(grown).sum();
    let squares: f64 = later.windows(2).map(|w| grown(w).powi(2)).sum();
    if sum <= 0.0 || squares <= 0.0 {
        return 0.0;
    }
    let middle = later.windows(2).map(|w| grown(w) * at(w)).sum::<f64>() / sum;
    // A place between 0 and 1 has a variance of a twelfth.
    (middle - 0.5) * (12.0 * sum.powi(2) / squares).sqrt()
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

    const SEEN: Seen =
        Seen { shapes: 2.0, from_start: false, after_rest: false, part: 0.5, trend: 0.0, samples: 100 };

    #[test]
    fn a_second_life_that_rises_alike_adds_to_the_odds_and_one_that_bends_takes_from_them() {
        let life = |value: f64| Evidence::of(Bend { value, error: 0.1 }, SEEN);
        let straight = life(0.0);
        assert!(straight.with(life(0.0)).log_odds > straight.log_odds + 0.1);
        assert!(straight.with(life(-0.3)).log_odds < straight.log_odds);
    }

    #[test]
    fn no_exactness_makes_a_fast_line_a_leak_but_slowness_and_late_growth_do() {
        let odds = |seen: Seen| Evidence::of(Bend { value: 0.0, error: 0.0 }, seen).so_far;
        let lengths = [10, 30, 60, 120, 1000].map(|samples| odds(Seen { samples, ..SEEN }));
        assert!(lengths.windows(2).all(|pair| pair[0] < pair[1]), "{lengths:?}");
        assert!(lengths[0] < 0.0 && lengths[4] > 1.1, "{lengths:?}");
        assert!(odds(Seen { part: 0.05, ..SEEN }) > odds(SEEN), "slow beside all that moved");
        assert!(odds(Seen { trend: 2.0, ..SEEN }) > odds(SEEN), "growth that comes late");
        assert!(odds(Seen { trend: -2.0, ..SEEN }) < odds(SEEN), "growth that gets rarer");
    }

    #[test]
    fn laplace_tells_growth_that_gets_rarer_from_growth_that_stays() {
        let curve =
            |f: fn(f64) -> f64| (0..36).map(|i| f64::from(i) / 35.0).map(|u| (u, f(u))).collect::<Vec<_>>();
        assert!(trend(&curve(|u| 3.0 * u)).abs() < 0.2);
        assert!(trend(&curve(|u| (30.0 * u).ln_1p())) < -1.0);
        assert!(trend(&curve(|u| u * u)) > 1.0);
        assert!(trend(&curve(|_| 1.0)).abs() < 1e-9);
    }
}
