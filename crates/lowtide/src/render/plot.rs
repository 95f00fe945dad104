//! Draws a curve with its floor, its phases and its limit as plain text: dots of braille, no colour, no control codes.
//!
//! Every column of dots spans the lowest to the highest value in its stretch of x, so no peak is lost. The floor is the
//! lower envelope: what stays when everything narrower than a twelfth of the picture is cut off the top.

use super::verdict::both;
use crate::commands::trace::{Reach, Trace};
use lowtide_model::{Axis, Bytes};
use lowtide_verdict::Settled;
use std::fmt::Write as _;

/// Without a terminal.
const USUAL_WIDTH: usize = 80;
/// Room for the sizes on the left.
const LABELS: usize = 10;
const ROWS: usize = 14;
const NARROWEST: usize = 20;
const WIDEST: usize = 200;
/// Peaks narrower than this part of the picture stand on the floor and are not of it.
const NARROW: usize = 12;
/// A limit is drawn when it is at most this much above the highest point.
const IN_SIGHT: f64 = 1.5;
/// A curve that stays above this share of its peak is drawn without the part below it.
const ZOOM_FROM: f64 = 0.5;
/// Dots of one character, by row and column.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
const EMPTY: u32 = 0x2800;

/// The picture, with a line that tells what is what.
pub(crate) fn plot(
    trace: &Trace,
    settled: Option<&Settled>,
    limit: Option<f64>,
    width: Option<usize>,
) -> String {
    let columns = width.unwrap_or(USUAL_WIDTH).saturating_sub(LABELS + 2).clamp(NARROWEST, WIDEST);
    let Some(bands) = Bands::of(trace, 2 * columns) else {
        return "  nothing to draw: no two samples at different places\n".to_owned();
    };
    let scale = Scale::over(&bands, limit);
    let knee = settled.and_then(|at| if trace.axis == Axis::Seconds { at.seconds } else { at.step });
    let picture = Picture { bands: &bands, scale: &scale, columns, limit, axis: trace.axis, knee };
    picture.text()
}

/// Lowest and highest value of each column of dots.
struct Bands {
    from: f64,
    to: f64,
    low: Vec<f64>,
    high: Vec<f64>,
}

impl Bands {
    fn of(trace: &Trace, columns: usize) -> Option<Self> {
        let (from, to) = trace.ends().filter(|(from, to)| to > from)?;
        let mut spans: Vec<Option<(f64, f64)>> = vec![None; columns];
        for point in &trace.points {
            let place = (point.x - from) / (to - from) * (columns - 1) as f64;
            let span = spans.get_mut(place.round() as usize)?;
            let Reach { low, high, .. } = *point;
            *span = Some(span.map_or((low, high), |(a, b)| (a.min(low), b.max(high))));
        }
        let filled = between(&spans)?;
        let (low, high) = filled.into_iter().unzip();
        Some(Self { from, to, low, high })
    }

    /// The lower envelope: the lowest of each window, then the highest of those.
    fn floor(&self) -> Vec<f64> {
        let reach = (self.low.len() / (2 * NARROW)).max(1);
        let low = windows(&self.low, reach, f64::min);
        windows(&low, reach, f64::max)
    }
}

/// Fills empty columns by a straight line between their neighbours.
fn between(spans: &[Option<(f64, f64)>]) -> Option<Vec<(f64, f64)>> {
    let known: Vec<usize> = (0..spans.len()).filter(|&at| spans[at].is_some()).collect();
    let mut out = Vec::with_capacity(spans.len());
    for at in 0..spans.len() {
        let after = known.partition_point(|&k| k < at).min(known.len().checked_sub(1)?);
        let (a, b) = (known[after.saturating_sub(1)], known[after]);
        let (left, right) = (spans[a]?, spans[b]?);
        let share = if spans[at].is_some() || b == a { None } else { Some((at - a) as f64 / (b - a) as f64) };
        out.push(match (spans[at], share) {
            (Some(span), _) => span,
            (None, Some(share)) => {
                let middle = |x: f64, y: f64| share.mul_add(y - x, x);
                let at = middle(f64::midpoint(left.0, left.1), f64::midpoint(right.0, right.1));
                (at, at)
            }
            (None, None) => right,
        });
    }
    Some(out)
}

fn windows(values: &[f64], reach: usize, pick: fn(f64, f64) -> f64) -> Vec<f64> {
    let window = |at: usize| &values[at.saturating_sub(reach)..(at + reach + 1).min(values.len())];
    (0..values.len()).map(|at| window(at).iter().copied().fold(values[at], pick)).collect()
}

/// What the rows span.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(bands: &Bands, limit: Option<f64>) -> Self {
        let peak = bands.high.iter().copied().fold(0.0, f64::max);
        let bottom = bands.low.iter().copied().fold(f64::INFINITY, f64::min);
        let high = limit.filter(|limit| *limit <= IN_SIGHT * peak).map_or(peak, |limit| peak.max(limit));
        let low = if bottom > ZOOM_FROM * peak { 0.95 * bottom } else { bottom.min(0.0) };
        Self { low, high: if high > low { high } else { low + 1.0 } }
    }

    /// The row of dots of a value, from the top.
    fn dot(&self, value: f64) -> usize {
        let part = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        ((1.0 - part) * (ROWS * 4 - 1) as f64).round() as usize
    }

    /// The value at the middle of a row of characters.
    fn at(&self, row: usize) -> f64 {
        let part = 1.0 - row as f64 / (ROWS - 1) as f64;
        part.mul_add(self.high - self.low, self.low)
    }
}

struct Picture<'a> {
    bands: &'a Bands,
    scale: &'a Scale,
    columns: usize,
    limit: Option<f64>,
    axis: Axis,
    knee: Option<f64>,
}

impl Picture<'_> {
    fn text(&self) -> String {
        let mut cells = self.curve();
        let mark = |cells: &mut Vec<Vec<char>>, row: usize, column: usize, sign: char| {
            if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column))
                && *cell == ' '
            {
                *cell = sign;
            }
        };
        for (column, floor) in self.bands.floor().iter().step_by(2).enumerate() {
            mark(&mut cells, self.scale.dot(*floor) / 4, column, '_');
        }
        if let Some(limit) = self.limit_in_sight() {
            (0..self.columns).for_each(|column| mark(&mut cells, self.scale.dot(limit) / 4, column, '='));
        }
        if let Some(column) = self.knee.map(|knee| self.column(knee)) {
            (0..ROWS).for_each(|row| mark(&mut cells, row, column, '|'));
        }
        let mut text = String::new();
        for (row, line) in cells.iter().enumerate() {
            let label = if row % 3 == 0 || row == ROWS - 1 { self.label(row) } else { String::new() };
            let line: String = line.iter().collect();
            let _ = writeln!(text, "{}", format!("{label:>LABELS$} {line}").trim_end());
        }
        text + &self.below()
    }

    fn label(&self, row: usize) -> String {
        Bytes::from_f64(self.scale.at(row)).to_string()
    }

    fn curve(&self) -> Vec<Vec<char>> {
        let mut dots = vec![vec![0_u32; self.columns]; ROWS];
        for (column, (low, high)) in self.bands.low.iter().zip(&self.bands.high).enumerate() {
            for dot in self.scale.dot(*high)..=self.scale.dot(*low) {
                if let Some(cell) = dots.get_mut(dot / 4).and_then(|row| row.get_mut(column / 2)) {
                    *cell |= DOTS[dot % 4][column % 2];
                }
            }
        }
        let sign = |dots: &u32| if *dots == 0 { ' ' } else { char::from_u32(EMPTY + dots).unwrap_or('*') };
        dots.iter().map(|row| row.iter().map(sign).collect()).collect()
    }

    fn limit_in_sight(&self) -> Option<f64> {
        self.limit.filter(|limit| *limit <= self.scale.high)
    }

    fn column(&self, x: f64) -> usize {
        let part = (x - self.bands.from) / (self.bands.to - self.bands.from);
        (part.clamp(0.0, 1.0) * (self.columns - 1) as f64).round() as usize
    }

    /// The ends of x, the phases, and what the signs mean.
    fn below(&self) -> String {
        let (from, to) = (self.place(self.bands.from), self.place(self.bands.to));
        let gap = self.columns.saturating_sub(from.chars().count() + to.chars().count()).max(1);
        let mut text = format!("{:LABELS$} {from}{:gap$}{to}\n", "", "");
        if let Some(knee) = self.knee {
            let (left, place) = (self.column(knee), self.place(knee));
            let _ = writeln!(text, "{:LABELS$} {}", "", phases(left, self.columns, &place));
        }
        let mut signs = vec!["dots: memory".to_owned(), "_ floor".to_owned()];
        match (self.limit_in_sight(), self.limit) {
            (Some(limit), _) => signs.push(format!("= limit {}", both(limit))),
            (None, Some(limit)) => signs.push(format!("limit {} is above the picture", both(limit))),
            (None, None) => {}
        }
        if self.knee.is_some() {
            signs.push("| growth ended".to_owned());
        }
        let _ = writeln!(text, "{:LABELS$} {}", "", signs.join(", "));
        text
    }

    fn place(&self, x: f64) -> String {
        let digits = usize::from(x.abs() < 100.0 && x.fract().abs() > 0.05);
        match self.axis {
            Axis::Step => format!("step {x:.digits$}"),
            Axis::Seconds => format!("{x:.digits$} s"),
            Axis::Sample => format!("sample {x:.digits$}"),
            Axis::Epoch => format!("epoch {x:.2}"),
        }
    }
}

/// `<--- growing --->|<--- settled since step 83 --->`, as far as there is room.
fn phases(left: usize, columns: usize, place: &str) -> String {
    let part = |words: &str, room: usize| {
        let words = format!(" {words} ");
        let length = words.chars().count();
        if room < length + 2 {
            return "-".repeat(room);
        }
        let (before, after) = ((room - length) / 2, (room - length).div_ceil(2));
        format!("{}{words}{}", "-".repeat(before), "-".repeat(after))
    };
    format!(
        "{}|{}",
        part("growing", left),
        part(&format!("settled since {place}"), columns.saturating_sub(left + 1))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trace(points: impl IntoIterator<Item = (f64, f64)>) -> Trace {
        let points = points.into_iter().map(|(x, y)| Reach { x, low: y, high: y, last: y }).collect();
        Trace { axis: Axis::Step, points }
    }

    #[test]
    fn a_rise_that_settles_shows_curve_floor_phases_and_limit() {
        let knee = |x: f64| (x, 1e9 + 1e8 * x.min(50.0));
        let settled = Settled { step: Some(50.0), seconds: None };
        let text = plot(&trace((0..=100).map(|x| knee(f64::from(x)))), Some(&settled), Some(7e9), None);
        assert!(text.lines().all(|line| line.chars().count() <= USUAL_WIDTH), "{text}");
        assert!(text.contains("growing") && text.contains("settled since step 50"), "{text}");
        assert!(text.contains("= limit 6.52 GiB (7.0 GB)") && text.contains("====="), "{text}");
        assert!(text.contains("step 0") && text.contains("step 100"), "{text}");
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[ROWS - 1].trim_start().starts_with("0 B") && rows[0].contains("6.52 GiB"), "{text}");
    }

    #[test]
    fn the_floor_stays_below_narrow_peaks() {
        let spiky = trace((0..400).map(|x| (f64::from(x), if x % 40 == 20 { 9e9 } else { 1e9 })));
        let bands = Bands::of(&spiky, 120).unwrap();
        assert!(bands.floor().iter().all(|floor| (*floor - 1e9).abs() < 1.0));
        assert!(bands.high.iter().any(|high| *high > 8.9e9), "peaks are drawn");
    }

    #[test]
    fn a_single_place_is_no_picture() {
        assert!(plot(&trace([(5.0, 1e9), (5.0, 2e9)]), None, None, None).contains("nothing to draw"));
        assert!(plot(&trace([]), None, None, None).contains("nothing to draw"));
    }

    proptest! {
        #[test]
        fn no_curve_panics_and_no_line_is_too_long(
            points in prop::collection::vec((-1e18_f64..1e18, -1e20_f64..1e20), 0..80),
            width in 0_usize..400,
            limit in prop::option::of(-1e12_f64..1e20),
        ) {
            let mut points = points;
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let text = plot(&trace(points), Some(&Settled { step: Some(3.0), seconds: None }), limit, Some(width));
            prop_assert!(!text.is_empty());
        }
    }
}
