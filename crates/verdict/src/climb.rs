//! Says whether peaks get higher from one to the next, over a floor that stays.
//!
//! Such a job needs more each time and meets its limit at a peak, while its floor says that it fits. Not here: whether a sample
//! is a peak (see `facts`), what is needed (see `budget`).

use crate::facts::Line;
use crate::floor::quantile;

/// Fewer peaks can't be told from chance: six in rising order are one order of 720.
const FEWEST: usize = 6;
/// Mann and Kendall's test must be wrong one time in a hundred at the most (standard errors, one side).
const SURE: f64 = 2.33;
/// All of it must be this part of how high peaks are: less does not change what has to be planned for.
const WORTH: f64 = 0.1;
/// The later half keeps this part of the pace of all: what slows down ends.
const KEEPS: f64 = 0.5;

/// Peaks that get higher.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Climb {
    /// Their height over the floor.
    pub(crate) line: Line,
    /// How many there are, and by how much each is higher than the one before.
    pub(crate) peaks: usize,
    pub(crate) each: f64,
}

impl Climb {
    /// Of the top of each peak: where it stands and how high over the floor.
    pub(crate) fn of(tops: &[(f64, f64)]) -> Option<Self> {
        let peaks = tops.len();
        if peaks < FEWEST || kendall(tops) < SURE {
            return None;
        }
        let line = Line::through(tops)?;
        let later = Line::through(&tops[peaks / 2..])?;
        let grown = line.rate * (line.to - line.from);
        let mut heights: Vec<f64> = tops.iter().map(|top| top.1).collect();
        let goes_on = line.rate > line.margin && later.rate >= KEEPS * line.rate;
        let each = grown / (peaks - 1) as f64;
        (goes_on && grown >= WORTH * quantile(&mut heights, 0.5)).then_some(Self { line, peaks, each })
    }
}

/// Mann and Kendall's test of a trend, in standard errors.
fn kendall(tops: &[(f64, f64)]) -> f64 {
    let n = tops.len() as f64;
    let later = |i: usize| tops[i + 1..].iter().map(move |top| top.1 - tops[i].1);
    let sign = |d: f64| if d > 0.0 { 1.0 } else { -f64::from(u8::from(d < 0.0)) };
    let sum: f64 = (0..tops.len()).flat_map(later).map(sign).sum();
    let variance = n * (n - 1.0) * 2.0_f64.mul_add(n, 5.0) / 18.0;
    // One step back for a count that is taken for a smooth number.
    (sum.abs() - 1.0).max(0.0).copysign(sum) / variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn climbs(heights: &[f64]) -> bool {
        let tops: Vec<(f64, f64)> = heights.iter().enumerate().map(|(i, h)| (i as f64, *h)).collect();
        Climb::of(&tops).is_some()
    }

    #[test]
    fn six_peaks_in_rising_order_climb_and_five_do_not_tell() {
        assert!(climbs(&[10.0, 11.0, 12.0, 13.0, 14.0, 15.0]));
        assert!(!climbs(&[10.0, 11.0, 12.0, 13.0, 14.0]));
        assert!(!climbs(&[10.0, 14.0, 11.0, 13.0, 12.0, 15.0]), "chance");
        assert!(!climbs(&[10.0, 10.01, 10.02, 10.03, 10.04, 10.05]), "nobody plans for that");
        assert!(!climbs(&[15.0, 14.0, 13.0, 12.0, 11.0, 10.0]));
        assert!(!climbs(&[1.0, 5.0, 8.0, 9.0, 9.3, 9.4, 9.45, 9.47, 9.48, 9.49]), "it slows down");
        assert!(!climbs(&[10.0; 9]));
    }
}
