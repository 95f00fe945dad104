//! Takes out the time in which nobody watched and nothing moved: a suspended machine's hours are not the job's.
//!
//! A gap whose two sides stand at different levels is kept: there the job ran on unseen, and its time was real. Curves
//! over steps need none of this, because no step is made while nothing runs.

use crate::floor::quantile;
use crate::series::{Bin, Series};
use lowtide_model::{Event, EventKind};

/// Gaps remembered; a recording with more is mostly gaps.
const MOST: usize = 1024;
/// Samples on each side that say what one tick usually changes.
const AROUND: usize = 6;
/// A level that differs by no more than so many usual changes did not move while nobody looked.
const TICKS: f64 = 3.0;

/// Stretches without samples, as the recorder told them, in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps(Vec<(f64, f64)>);

impl Gaps {
    /// Takes an event; any but a gap with its two ends is passed over.
    pub(crate) fn push(&mut self, event: &Event) {
        if event.kind != EventKind::Gap || self.0.len() >= MOST {
            return;
        }
        let facts =
            event.data.as_deref().and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
        let end = |key: &str| Some(facts.as_ref()?.get(key)?.as_u64()? as f64 / 1e9);
        let after = self.0.last().map_or(0.0, |last| last.1);
        let ends = end("from_ns").zip(end("to_ns"));
        self.0.extend(ends.filter(|(from, to)| from < to && *from >= after));
    }

    /// Those in which this curve did not move.
    pub(crate) fn asleep(&self, series: &Series, doubt: f64) -> Asleep {
        Asleep(self.0.iter().copied().filter(|gap| rests(series.bins(), *gap, doubt)).collect())
    }
}

fn rests(bins: &[Bin], (from, to): (f64, f64), doubt: f64) -> bool {
    // Ticks are whole nanoseconds on their way through floats: a microsecond is no time.
    let before = &bins[..bins.partition_point(|b| b.x_first <= from + 1e-6)];
    let after = &bins[bins.partition_point(|b| b.x_first < to - 1e-6)..];
    let (Some(left), Some(right)) = (before.last(), after.first()) else { return false };
    let near = [&before[before.len().saturating_sub(AROUND)..], &after[..after.len().min(AROUND)]];
    let changes =
        |part: &&[Bin]| part.windows(2).map(|w| (w[1].last - w[0].last).abs()).collect::<Vec<f64>>();
    let mut usual: Vec<f64> = near.iter().flat_map(changes).collect();
    (right.low - left.last).abs() <= TICKS.mul_add(quantile(&mut usual, 0.5), doubt)
}

/// Stretches to leave out of one curve.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asleep(Vec<(f64, f64)>);

impl Asleep {
    /// How much is left out, and in how many stretches.
    pub(crate) fn all(&self) -> Option<(f64, usize)> {
        (!self.0.is_empty()).then(|| (self.0.iter().map(|gap| gap.1 - gap.0).sum(), self.0.len()))
    }

    /// Where a second of the recording lies in watched time.
    pub(crate) fn watched(&self, second: f64) -> f64 {
        second - self.0.iter().map(|gap| (second.min(gap.1) - gap.0).max(0.0)).sum::<f64>()
    }

    /// The second of the recording that a watched one was.
    pub(crate) fn second(&self, watched: f64) -> f64 {
        self.0.iter().fold(watched, |at, gap| if at > gap.0 { at + gap.1 - gap.0 } else { at })
    }

    /// The curve over watched time.
    pub(crate) fn cut(&self, series: &Series) -> Series {
        if self.0.is_empty() { series.clone() } else { series.moved(|x| self.watched(x)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Point;
    use lowtide_model::Tick;

    fn gap(data: &str) -> Gaps {
        let mut gaps = Gaps::default();
        let text = String::new();
        gaps.push(&Event {
            tick: Tick::START,
            kind: EventKind::Gap,
            process: None,
            text,
            data: Some(data.into()),
        });
        gaps
    }

    fn curve(level: impl Fn(f64) -> f64) -> Series {
        let mut series = Series::new(512);
        let seconds = (0..=50).chain(1000..1050).map(f64::from);
        seconds.for_each(|x| series.push(Point::one(x, level(x))));
        series
    }

    const SLEPT: &str = r#"{"from_ns":50000000000,"to_ns":1000000000000}"#;

    #[test]
    fn a_gap_in_which_nothing_moved_is_left_out_and_can_be_put_back() {
        let awake = |x: f64| if x > 50.0 { x - 950.0 } else { x };
        let asleep = gap(SLEPT).asleep(&curve(awake), 0.1);
        assert_eq!(asleep.all(), Some((950.0, 1)));
        assert!((asleep.watched(1010.0) - 60.0).abs() < 1e-9 && (asleep.second(60.0) - 1010.0).abs() < 1e-9);
        assert!((asleep.watched(20.0) - 20.0).abs() < 1e-9 && (asleep.second(20.0) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_gap_over_which_the_job_ran_on_keeps_its_time() {
        assert_eq!(gap(SLEPT).asleep(&curve(|x| x), 0.1).all(), None);
    }

    #[test]
    fn broken_gaps_are_passed_over() {
        for data in ["", "{}", r#"{"from_ns":9,"to_ns":2}"#, r#"{"from_ns":-1,"to_ns":2}"#, "[1]"] {
            assert!(gap(data).0.is_empty(), "{data}");
        }
    }
}
