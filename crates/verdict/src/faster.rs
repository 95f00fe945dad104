//! How a rise that gets ever faster goes on.
//!
//! Why: a straight line through it comes to a limit much too late, and its interval leaves the truth out. A parabola goes on as
//! what is logged anew at each step, a power of it otherwise; at the latest it keeps the pace of its end, at the soonest it goes
//! on to double in the time it took to double.

use crate::facts::Line;

/// Points that show how a pace changes.
const FEWEST: usize = 8;
/// The bend must be this many standard errors above nothing; neighbours are no independent points.
const SURE: f64 = 4.0;
/// ... and the paces of both halves so many of what chance makes of them apart.
const CHANCE: f64 = 3.0;
/// The pace of the end must be this many times that of the middle.
const WORTH: f64 = 1.25;
/// By so much a pace grows from one quarter to the next, at the least, and at the most: one that began with nothing grew by any factor.
const LEAST_TIMES: f64 = 1.05;
const MOST_TIMES: f64 = 8.0;

/// A rise that gets faster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Faster {
    /// Its pace at the end of the curve, and by how much that grows with each x, halved.
    pub(crate) pace: f64,
    bend: f64,
    /// Half of how far it was seen.
    half: f64,
    /// What it comes to if it goes on to grow in proportion to itself: the pace at the end, and in which x that grows by a factor of e.
    doubling: (f64, f64),
}

impl Faster {
    /// What the points of a rise tell; nothing where a line does as well. With it, how far each is from the parabola.
    pub(crate) fn of(points: &[(f64, f64)]) -> Option<(Self, Vec<(f64, f64)>)> {
        let (first, last) = (points.first()?.0, points.last()?.0);
        let (half, n) = ((last - first) / 2.0, points.len() as f64);
        if points.len() < FEWEST || half <= 0.0 {
            return None;
        }
        // In -1..1 the parabola is nearly orthogonal to the line, which keeps the sums exact.
        let place = |x: f64| (x - first) / half - 1.0;
        let sums = points.iter().fold([0.0; 7], |[s1, s2, s3, s4, y0, y1, y2], (x, y)| {
            let u = place(*x);
            [s1 + u, s2 + u * u, s3 + u.powi(3), s4 + u.powi(4), y0 + y, y1 + u * y, y2 + u * u * y]
        });
        let [s1, s2, s3, s4, y0, y1, y2] = sums;
        let minor = [s2 * s4 - s3 * s3, s1 * s4 - s2 * s3, s1 * s3 - s2 * s2];
        let all = n * minor[0] - s1 * minor[1] + s2 * minor[2];
        let level = (y0 * minor[0] - s1 * (y1 * s4 - s3 * y2) + s2 * (y1 * s3 - s2 * y2)) / all;
        let slope = (n * (y1 * s4 - s3 * y2) - y0 * minor[1] + s2 * (s1 * y2 - y1 * s2)) / all;
        let bend = (n * (s2 * y2 - y1 * s3) - s1 * (s1 * y2 - y1 * s2) + y0 * minor[2]) / all;
        let off = |x: f64, y: f64| y - level - place(x) * (slope + bend * place(x));
        let rest: Vec<(f64, f64)> = points.iter().map(|(x, y)| (*x, off(*x, *y))).collect();
        let misses: f64 = rest.iter().map(|(_, off)| off.powi(2)).sum();
        let error = (misses / (n - 3.0) * (n * s2 - s1 * s1) / all).sqrt();
        let (end, middle) = (2.0f64.mul_add(bend, slope), slope);
        let sure = all.is_finite() && bend > SURE * error && end > WORTH * middle && end > 0.0;
        let found = Self { pace: end / half, bend: bend / (half * half), half, doubling: doubling(points) };
        sure.then_some((found, rest))
    }

    /// Whether the paces of its two halves differ by more than what comes at random makes of them, by the variance of that for each x.
    pub(crate) fn is_no_chance(&self, strays: f64) -> bool {
        2.0 * self.bend * self.half > CHANCE * (2.0 * strays / self.half).sqrt()
    }

    /// By how much it rises in so many x from its end.
    pub(crate) fn rises(&self, x: f64) -> f64 {
        (self.bend * x + self.pace) * x
    }

    /// In how many x it rises by so much, as a parabola; with another pace beside it.
    pub(crate) fn takes(&self, bytes: f64, beside: f64) -> f64 {
        let pace = self.pace + beside;
        // The form that loses nothing where the bend is small.
        2.0 * bytes / (pace + (pace * pace + 4.0 * self.bend * bytes).sqrt())
    }

    /// The same at the soonest and at the latest.
    pub(crate) fn between(&self, bytes: f64, beside: f64) -> (f64, f64) {
        let (pace, folds) = self.doubling;
        let soonest = folds * (bytes / ((pace.max(self.pace) + beside) * folds)).ln_1p();
        (soonest.min(self.takes(bytes, beside)), bytes / (self.pace + beside))
    }
}

/// The pace at the end and in which x it grows by a factor of e, by the last two quarters.
fn doubling(points: &[(f64, f64)]) -> (f64, f64) {
    let quarter = points.len().div_ceil(4);
    let last = points.len() - quarter;
    let pace = |points: &[(f64, f64)]| Line::through(points).map_or(0.0, |line| line.rate);
    let (before, after) = (pace(&points[last - quarter..last]), pace(&points[last..]));
    let apart = points[points.len() - 1].0 - points[last - 1].0;
    let times = if before > 0.0 { after / before } else { MOST_TIMES };
    let folds = apart / times.clamp(LEAST_TIMES, MOST_TIMES).ln();
    (after * (apart / 2.0 / folds).exp(), folds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(level: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..36).map(|i| (100.0 * f64::from(i), level(100.0 * f64::from(i)))).collect()
    }

    #[test]
    fn where_a_parabola_a_cube_and_a_doubling_come_to_lies_between_the_soonest_and_the_latest() {
        let last: f64 = 3500.0;
        for (rise, inverse) in [
            (
                Box::new(|x: f64| x * x) as Box<dyn Fn(f64) -> f64>,
                Box::new(f64::sqrt) as Box<dyn Fn(f64) -> f64>,
            ),
            (Box::new(|x: f64| x.powf(1.5)), Box::new(|y: f64| y.powf(1.0 / 1.5))),
            (Box::new(|x: f64| x.powi(3)), Box::new(f64::cbrt)),
            (Box::new(|x: f64| (x / 900.0).exp()), Box::new(|y: f64| 900.0 * y.ln())),
        ] {
            let (found, _) = Faster::of(&points(&rise)).unwrap();
            for times in [1.5, 3.0] {
                let ahead = (times - 1.0) * rise(last);
                let truth = inverse(times * rise(last)) - last;
                let (soonest, latest) = found.between(ahead, 0.0);
                assert!(
                    (0.8 * soonest..latest).contains(&truth),
                    "{times}: {truth} of {soonest} to {latest}"
                );
                let takes = found.takes(ahead, 0.0);
                assert!((soonest..=latest).contains(&takes), "{takes}");
                assert!((found.rises(takes) / ahead - 1.0).abs() < 1e-9);
            }
        }
        let (found, _) = Faster::of(&points(|x| x * x)).unwrap();
        assert!(
            (found.takes(3.0 * last * last, 0.0) / last - 1.0).abs() < 1e-6,
            "twice as far is four times as high"
        );
    }

    #[test]
    fn a_line_a_bend_and_noise_are_not_faster() {
        assert!(Faster::of(&points(|x| 3.0 * x)).is_none());
        assert!(Faster::of(&points(f64::sqrt)).is_none());
        let wobble = |x: f64| (x * 12.9898).sin() * 400.0;
        assert!(Faster::of(&points(|x| 3.0 * x + wobble(x))).is_none());
        assert!(Faster::of(&[(0.0, 1.0); 40]).is_none(), "all at one place");
        assert!(Faster::of(&[]).is_none());
        assert!(Faster::of(&points(|_| f64::NAN)).is_none());
    }
}
