//! The course of the tree's total in a few hundred points, however long the job runs.

use lowtide_model::{Bytes, Tick};
use lowtide_wire::Point;

/// Enough for the widest terminal in braille, small enough to send at once.
const MOST: usize = 600;

/// Bins of equal width that double when they run out.
#[derive(Debug)]
pub(crate) struct History {
    bins: Vec<Point>,
    width: f64,
}

impl Default for History {
    fn default() -> Self {
        Self { bins: Vec::with_capacity(MOST), width: 0.25 }
    }
}

impl History {
    pub(crate) fn push(&mut self, tick: Tick, total: Bytes) {
        let start = (tick.seconds() / self.width).floor() * self.width;
        match self.bins.last_mut() {
            Some(bin) if bin.seconds >= start => {
                bin.low_bytes = bin.low_bytes.min(total);
                bin.high_bytes = bin.high_bytes.max(total);
            }
            Some(_) | None => self.bins.push(Point { seconds: start, low_bytes: total, high_bytes: total }),
        }
        if self.bins.len() >= MOST {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.width *= 2.0;
        for bin in &mut self.bins {
            bin.seconds = (bin.seconds / self.width).floor() * self.width;
        }
        self.bins.dedup_by(|bin, last| {
            let same = bin.seconds <= last.seconds;
            if same {
                last.low_bytes = last.low_bytes.min(bin.low_bytes);
                last.high_bytes = last.high_bytes.max(bin.high_bytes);
            }
            same
        });
    }

    pub(crate) fn points(&self) -> Vec<Point> {
        self.bins.clone()
    }

    /// The lowest total about a minute ago, for a rate a person can use.
    pub(crate) fn before(&self, now: Tick, seconds: f64) -> Option<Point> {
        let then = now.seconds() - seconds;
        self.bins.iter().rev().find(|bin| bin.seconds <= then).or(self.bins.first()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_fits_in_the_bound_and_keeps_its_peak() {
        let mut history = History::default();
        for second in 0..600_000_u64 {
            let total = if second == 300_000 { 9_000 } else { 100 };
            history.push(Tick(second * 1_000_000_000), Bytes(total));
        }
        assert!(history.points().len() < MOST);
        assert_eq!(history.points().iter().map(|point| point.high_bytes).max(), Some(Bytes(9_000)));
        assert!(history.points().windows(2).all(|pair| pair[0].seconds < pair[1].seconds));
    }
}
