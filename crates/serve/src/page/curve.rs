//! A measured curve thinned for drawing: every stretch keeps its lowest and its highest value.

use lowtide_verdict::Point;
use serde::Serialize;

/// Points of a drawn curve: more than any screen has columns to show them.
const MOST_POINTS: usize = 1200;

/// One curve, as columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Line {
    pub(crate) x: Vec<f64>,
    pub(crate) low: Vec<f64>,
    pub(crate) high: Vec<f64>,
    pub(crate) last: Vec<f64>,
}

impl Line {
    pub(crate) fn of(points: &[Point]) -> Self {
        let points = merged(points.iter().filter(|p| p.x.is_finite() && p.last.is_finite()).copied());
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return Self::default() };
        if points.len() <= MOST_POINTS {
            return Self::columns(&points);
        }
        let width = (last.x - first.x) / MOST_POINTS as f64;
        let place = |p: &Point| ((p.x - first.x) / width) as usize;
        let thinned: Vec<Point> = points.chunk_by(|a, b| place(a) == place(b)).filter_map(together).collect();
        Self::columns(&thinned)
    }

    fn columns(points: &[Point]) -> Self {
        let column = |of: fn(&Point) -> f64| points.iter().map(|p| of(p).round()).collect();
        Self {
            x: points.iter().map(|p| (p.x * 1000.0).round() / 1000.0).collect(),
            low: column(|p| p.low),
            high: column(|p| p.high),
            last: column(|p| p.last),
        }
    }

    /// The highest value.
    pub(crate) fn peak(&self) -> Option<f64> {
        self.high.iter().copied().reduce(f64::max)
    }
}

/// Rows of the same place (one step has many samples) become one.
fn merged(points: impl Iterator<Item = Point>) -> Vec<Point> {
    let mut points: Vec<Point> = points.collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points.chunk_by(|a, b| (a.x - b.x).abs() < 1e-9).filter_map(together).collect()
}

fn together(group: &[Point]) -> Option<Point> {
    let (first, last) = (group.first()?, group.last()?);
    let low = group.iter().map(|p| p.low).fold(f64::INFINITY, f64::min);
    let high = group.iter().map(|p| p.high).fold(f64::NEG_INFINITY, f64::max);
    Some(Point { x: first.x, low, high, last: last.last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn thinning_hides_no_peak_and_no_floor(
            values in prop::collection::vec((0_u32..200_000, 0_u64..1 << 40), 1..6000)
        ) {
            let points: Vec<Point> = values.iter().map(|(x, y)| {
                let y = *y as f64;
                Point { x: f64::from(*x), low: y, high: y, last: y }
            }).collect();
            let line = Line::of(&points);
            let lowest = values.iter().map(|v| v.1).min().unwrap() as f64;
            let highest = values.iter().map(|v| v.1).max().unwrap() as f64;
            prop_assert!((line.low.iter().copied().fold(f64::INFINITY, f64::min) - lowest).abs() < 0.5);
            prop_assert!((line.peak().unwrap() - highest).abs() < 0.5);
            prop_assert!(line.x.len() <= MOST_POINTS + 1);
            prop_assert!(line.x.windows(2).all(|w| w[0] < w[1]), "places rise");
        }
    }

    #[test]
    fn nothing_measured_is_an_empty_line() {
        let line = Line::of(&[Point { x: f64::NAN, low: 1.0, high: 1.0, last: 1.0 }]);
        assert_eq!(line, Line::default());
    }
}
