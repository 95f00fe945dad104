//! What a figure shows of x and y, and where its ticks stand. The script of the page uses the same view.

use crate::page::Figure;
use lowtide_model::{Axis, Bytes};
use serde::Serialize;

/// A limit is drawn when it is at most this much above the highest point; farther away it is only told.
const IN_SIGHT: f64 = 2.0;
/// A curve that stays above this share of its peak is drawn without the part below it.
const ZOOM_FROM: f64 = 0.6;
/// Air above the highest thing drawn.
const AIR: f64 = 1.06;
/// Ticks aimed at.
const TICKS: f64 = 6.0;

/// The part of the plane that is shown at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct View {
    pub(crate) x: (f64, f64),
    pub(crate) y: (f64, f64),
}

impl View {
    /// All of the curve, the futures up to the limit, and the limit where it is near.
    pub(crate) fn of(figure: &Figure) -> Option<Self> {
        let (first, last) = (*figure.line.x.first()?, *figure.line.x.last()?);
        let reach = figure.futures.iter().filter_map(|f| f.points.last()).map(|p| p.0).fold(last, f64::max);
        let peak = figure.line.peak()?.max(1.0);
        let low = figure.line.low.iter().copied().fold(f64::INFINITY, f64::min);
        let future = figure.futures.iter().flat_map(|f| &f.points).map(|p| p.1).fold(0.0, f64::max);
        let limit = figure.limit.as_ref().map(|limit| limit.bytes);
        let futures = limit.map_or(future, |limit| future.min(limit.max(peak)));
        let drawn = peak.max(futures);
        let high = limit.filter(|limit| *limit <= IN_SIGHT * drawn).map_or(drawn, |limit| drawn.max(limit));
        let bottom = if low > ZOOM_FROM * high { 0.97 * low } else { 0.0 };
        let right = if reach > first { reach } else { first + 1.0 };
        Some(Self { x: (first, right), y: (bottom, high * AIR) })
    }

    pub(crate) fn shows(&self, bytes: f64) -> bool {
        bytes >= self.y.0 && bytes <= self.y.1
    }
}

/// Ticks of sizes: 1, 2 or 5 of a power of ten in the unit people read.
pub(crate) fn size_ticks((low, high): (f64, f64)) -> Vec<(f64, String)> {
    let unit =
        [1_099_511_627_776.0, 1_073_741_824.0, 1_048_576.0, 1024.0].into_iter().find(|unit| high >= *unit);
    let unit = unit.unwrap_or(1.0);
    let label = |value: f64| Bytes::from_f64(value).to_string();
    ticks((low / unit, high / unit)).into_iter().map(|value| (value * unit, label(value * unit))).collect()
}

/// Ticks of x.
pub(crate) fn place_ticks((low, high): (f64, f64), axis: Axis) -> Vec<(f64, String)> {
    match axis {
        Axis::Seconds => {
            let (unit, name) = match high - low {
                span if span <= 300.0 => (1.0, "s"),
                span if span <= 10_800.0 => (60.0, "min"),
                span if span <= 400_000.0 => (3600.0, "h"),
                _ => (86_400.0, "d"),
            };
            let label = |value: f64| format!("{} {name}", plain(value));
            ticks((low / unit, high / unit)).into_iter().map(|value| (value * unit, label(value))).collect()
        }
        Axis::Step | Axis::Sample | Axis::Epoch => {
            ticks((low, high)).into_iter().map(|value| (value, plain(value))).collect()
        }
    }
}

fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn ticks((low, high): (f64, f64)) -> Vec<f64> {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 {
        return Vec::new();
    }
    let raw = span / TICKS;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= raw).unwrap_or(raw);
    let first = (low / step).ceil() as i64;
    let count = ((high - first as f64 * step) / step).floor().clamp(0.0, 40.0) as i64;
    (0..=count).map(|n| (first + n) as f64 * step).filter(|tick| *tick >= low && *tick <= high).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_in_the_unit_that_is_read() {
        let gib = 1_073_741_824.0;
        let labels: Vec<String> = size_ticks((0.0, 30.0 * gib)).into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["0 B", "5.00 GiB", "10.0 GiB", "15.0 GiB", "20.0 GiB", "25.0 GiB", "30.0 GiB"]);
        let places: Vec<String> =
            place_ticks((0.0, 3600.0), Axis::Seconds).into_iter().map(|t| t.1).collect();
        assert_eq!(places, ["0 min", "10 min", "20 min", "30 min", "40 min", "50 min", "60 min"]);
    }

    proptest! {
        #[test]
        fn no_range_gives_endless_ticks(low in -1e18_f64..1e18, span in -1.0_f64..1e20) {
            prop_assert!(size_ticks((low, low + span)).len() < 50);
            prop_assert!(place_ticks((low, low + span), Axis::Step).len() < 50);
        }
    }
}
