//! Asks whether a rise is as fast at its end as at its start.
//!
//! A cache that fills, an allocator that ratchets and a pool that warms up all slow down; a leak does not. Inside a
//! noisy curve the two look alike, so the answer is a lower bound: how slow could the end be, given the scatter.

use crate::shapes::{Columns, effective_points, residual_correlation, solve};

/// Fewer points than this bend any way one likes.
const FEWEST: usize = 5;

/// The bend of a rise, as the second Legendre coefficient over the first: 0 is straight, -1/3 ends flat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bend {
    pub(crate) value: f64,
    /// Its standard error.
    pub(crate) error: f64,
}

impl Bend {
    /// Fits a parabola to the points; `None` when they are too few or do not rise.
    pub(crate) fn of(points: &[(f64, f64)]) -> Option<Self> {
        let (first, last) = (points.first()?.0, points.last()?.0);
        if points.len() < FEWEST || last <= first {
            return None;
        }
        let rows: Vec<Columns> = points
            .iter()
            .map(|p| 2.0 * (p.0 - first) / (last - first) - 1.0)
            .map(|t| [1.0, t, (1.5 * t).mul_add(t, -0.5), 0.0])
            .collect();
        let y: Vec<f64> = points.iter().map(|p| p.1).collect();
        let c = solve(&rows, &y, 3)?;
        if c[1] <= 0.0 {
            return None;
        }
        let residuals: Vec<f64> =
            rows.iter().zip(&y).map(|(r, y)| y - r.iter().zip(&c).map(|(a, b)| a * b).sum::<f64>()).collect();
        let n = residuals.len() as f64;
        let effective = effective_points(n, residual_correlation(&residuals)).max(3.5);
        let variance = residuals.iter().map(|r| r * r).sum::<f64>() / n * effective / (effective - 3.0);
        Some(Self { value: c[2] / c[1], error: (5.0 * variance / effective).sqrt() / c[1] })
    }

    /// The same bend measured twice, each by the weight of its exactness.
    pub(crate) fn pooled(self, other: Self) -> Self {
        let weigh = |bend: Self| 1.0 / bend.error.powi(2).max(f64::MIN_POSITIVE);
        let (a, b) = (weigh(self), weigh(other));
        Self { value: (a * self.value + b * other.value) / (a + b), error: 1.0 / (a + b).sqrt() }
    }

    /// Pace at the end over pace at the start, the bend being `sigmas` standard errors worse than it looks.
    pub(crate) fn pace_kept(self, sigmas: f64) -> f64 {
        let bend = sigmas.mul_add(-self.error, self.value).clamp(-1.0 / 3.0, 0.3);
        3.0_f64.mul_add(bend, 1.0) / (-3.0_f64).mul_add(bend, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(f: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..40).map(|i| f64::from(i) / 39.0).map(|u| (u, f(u))).collect()
    }

    #[test]
    fn a_line_keeps_its_pace_and_a_saturation_loses_it() {
        let line = Bend::of(&curve(|u| 3.0 * u)).unwrap();
        assert!((line.pace_kept(1.0) - 1.0).abs() < 1e-6);
        let slow = Bend::of(&curve(|u| 1.0 - (-2.0 * u).exp())).unwrap();
        assert!(slow.pace_kept(0.0) < 0.4);
    }

    #[test]
    fn what_falls_or_is_too_short_has_no_bend() {
        assert_eq!(Bend::of(&curve(|u| -u)), None);
        assert_eq!(Bend::of(&curve(|u| u)[..4]), None);
    }
}
