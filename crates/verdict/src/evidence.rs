//! Weighs whether a rise goes on: one number, the logarithm of its odds.
//!
//! A rise that will stop and one that will not look alike in their first part, so the answer is never yes or no but
//! how much speaks for it. Five things do: how clearly the shapes say that it has not stopped, how little its pace falls,
//! how exactly that pace is known, how early it bent, and whether its growth comes ever more rarely. In few samples it
//! must be all the more exact, unless it began after a rest: the first pass over data nobody told us of is a straight
//! line too. The weights were learned by logistic regression over made curves (see docs/verdict.md); each has the sign
//! it must have.
//!
//! While more samples will come there are two ways to be wrong, and they add up: the rise bends and it cannot be seen
//! yet, or it is as straight as it looks and stops all the same, as a bounded cache does. No exactness helps against
//! the second: only how slow it is (how many samples it takes to move memory as far as it was ever seen to move) and
//! how its growth lies in time. Not here: what follows (`assess`).

use crate::decide::{LATE_BEND, Odds, START, Stand, stand};
use crate::floor::Floor;
use crate::shapes::{Fit, Shape};
use crate::straight::Bend;

/// What each thing that is seen adds to the logarithm of the odds.
struct Weights {
    /// Before anything is seen.
    prior: f64,
    /// For the shapes' own log-odds. They count about a third: the shapes are drawn through the same points.
    shapes: f64,
    /// For a pace that falls: per standard error by which it does.
    bend: f64,
    /// For a pace that is known exactly: per natural logarithm of its error.
    error: f64,
    /// For a ramp that bent into the rise: per part of the curve that it took. What bent late bends again.
    bent: f64,
    /// For growth that lies late in the curve: per standard error of Laplace's test of a trend.
    trend: f64,
}

/// When all there will be was seen: learned on whole curves.
const WHOLE: Weights =
    Weights { prior: -2.3, shapes: 0.38, bend: 1.0, error: -1.95, bent: -4.6, trend: 0.35 };
/// While more will come: learned on parts of curves, where the first stretch of any rise looks exact (a Bayes factor would
/// have -1 for the error). How growth lies in time is weighed with the line that stops.
const PART: Weights = Weights { prior: -0.86, shapes: 0.24, bend: 0.72, error: -0.93, bent: 0.0, trend: 0.0 };

/// Six standard errors of a falling pace are as many as can be believed, ...
const MOST_ERRORS: f64 = 6.0;
/// ... and four of a trend.
const MOST_TREND: f64 = 4.0;
/// No rise is straighter than this: a leak under a warm-up bends a little too.
const STRAIGHTEST: f64 = 0.02;
/// Samples in which the first pass over the data is as likely as not, ...
const FIRST_PASS: f64 = 60.0;
/// ... and for a rise that has fewer: per natural logarithm of how many times fewer.
const BY_LENGTH: f64 = 3.0;
/// While more will come: that a straight line does not stop which takes `FIRST_PASS` samples to move memory as far as it
/// ever moved, and per natural logarithm of more of them. What fills, fills fast; what leaks, leaks beside something larger.
const NO_STOP: f64 = -0.4;
const BY_SLOWNESS: f64 = 0.85;
/// For growth that lies late in the curve, as Laplace's test of a trend counts it, per standard error: what ratchets does
/// so ever more rarely.
const BY_TREND: f64 = 0.5;
/// A rise from the very first sample moved memory as far as it ever moved by itself: slowness says little of it.
const NO_STOP_FROM_START: f64 = 1.4;
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
    /// Natural logarithm of the odds that it rises to the end, as the shapes say ...
    rises: f64,
    /// ... and that it has not stopped: slowing shapes speak for it, because its pace is asked apart.
    not_over: f64,
    /// Which part of the curve a ramp took that bent into it.
    bent: f64,
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
            + BY_TREND * self.late()
            + given(self.from_start, NO_STOP_FROM_START)
            + given(self.after_rest, AFTER_REST)
    }

    /// As much of the trend as can be believed.
    fn late(&self) -> f64 {
        self.trend.clamp(-MOST_TREND, MOST_TREND)
    }

    /// What speaks against a rise of few samples; one that began after a rest is no first pass over the data.
    fn too_short(&self) -> f64 {
        let shorter = (self.samples as f64 / FIRST_PASS).ln().min(0.0);
        if self.after_rest { 0.0 } else { BY_LENGTH * shorter }
    }
}

impl Weights {
    /// The log-odds that a rise does not bend.
    fn odds(&self, bend: Bend, seen: &Seen, shapes: f64) -> f64 {
        let falls = (bend.value / bend.error.hypot(STRAIGHTEST)).clamp(-MOST_ERRORS, 0.0);
        self.prior
            + self.shapes * shapes
            + self.bend * falls
            + self.error * (bend.error + SUREST).ln()
            + self.bent * seen.bent
            + self.trend * seen.late()
    }
}

impl Evidence {
    fn of(bend: Bend, seen: Seen) -> Self {
        let log_odds = WHOLE.odds(bend, &seen, seen.not_over) + seen.too_short();
        let so_far = either(PART.odds(bend, &seen, seen.rises), seen.no_stop());
        Self { log_odds, so_far, bend, seen }
    }

    /// What two lives of one program say together: their paces are measured twice. The longer one says how much of a
    /// first pass was seen, because each life begins it anew.
    pub(crate) fn with(self, other: Self) -> Self {
        let surest = ((1.0 + SUREST) / SUREST).ln();
        let (a, b) = (self.seen, other.seen);
        let seen = Seen {
            rises: (a.rises + b.rises).clamp(-surest, surest),
            not_over: (a.not_over + b.not_over).clamp(-surest, surest),
            bent: a.bent.max(b.bent),
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
    /// What the shapes weigh.
    pub(crate) odds: Odds,
    pub(crate) samples: u64,
    /// Highest minus lowest sample, waves and the start included.
    pub(crate) moved: f64,
}

/// `None` where no shape that rises to the end fits at all.
pub(crate) fn goes_on(look: &Look) -> Option<Evidence> {
    let best = look.fits.iter().find(|f| stand(f) == Stand::Rising)?;
    let (from, to) = rising_part(best);
    let points: Vec<(f64, f64)> = look.floor.unit().into_iter().zip(look.floor.y.iter().copied()).collect();
    // The start of the program is no part of a rise that a ramp bent into: its last bit would look like a pace that falls.
    let began = if from > 0.0 { from.max(START) } else { from };
    let alive: Vec<(f64, f64)> = points.iter().copied().filter(|p| (began..=to).contains(&p.0)).collect();
    let bend = Bend::of(&alive)?;
    let rise = alive.last()?.1 - alive.first()?.1;
    let seen = Seen {
        rises: log_odds(look.odds.rising),
        not_over: log_odds(look.odds.rising + slowing(look.fits)),
        bent: if rests(best.shape) { 0.0 } else { from },
        from_start: from <= 0.0,
        after_rest: rests(best.shape),
        part: if look.moved > 0.0 { rise / look.moved } else { 1.0 },
        trend: trend(&points),
        samples: look.samples,
    };
    Some(Evidence::of(bend, seen))
}

/// Where the rise that is still alive began, in 0..1.
pub(crate) fn rises_from(fits: &[Fit]) -> f64 {
    let best = fits.iter().find(|f| stand(f) == Stand::Rising);
    best.map_or(0.0, |fit| rising_part(fit).0).max(START)
}

/// What the shapes weigh that grow ever slower. One step out of a flat curve, shortly before its end, is no growth: waves
/// end with one that is not over. After an earlier rise it is growth that came again.
fn slowing(fits: &[Fit]) -> f64 {
    let slows = |f: &&Fit| stand(f) == Stand::Open && f.shape != Shape::Step;
    fits.iter().filter(slows).map(|f| f.weight).sum()
}

/// Of a weight of shapes.
fn log_odds(weight: f64) -> f64 {
    ((weight + SUREST) / (1.0 - weight + SUREST)).ln()
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

    const SEEN: Seen = Seen {
        rises: 2.0,
        not_over: 2.0,
        bent: 0.0,
        from_start: false,
        after_rest: false,
        part: 0.5,
        trend: 0.0,
        samples: 100,
    };

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
    fn few_samples_a_late_bend_and_growth_that_gets_rarer_speak_against_a_finished_rise() {
        let odds = |seen: Seen| Evidence::of(Bend { value: 0.0, error: 0.1 }, seen).log_odds;
        assert!(odds(Seen { samples: 20, ..SEEN }) < odds(Seen { samples: 40, ..SEEN }));
        assert!(odds(Seen { samples: 40, ..SEEN }) < odds(SEEN));
        let rested = Seen { after_rest: true, ..SEEN };
        assert!((odds(Seen { samples: 20, ..rested }) - odds(rested)).abs() < 1e-9, "no first pass");
        assert!(odds(Seen { bent: 0.3, ..SEEN }) < odds(SEEN));
        assert!(odds(Seen { trend: -2.0, ..SEEN }) < odds(SEEN));
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
