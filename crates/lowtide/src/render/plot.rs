//! Draws a curve with its floor, its phases, its futures and its limit as plain text: dots of braille, no colour, no
//! control codes.
//!
//! Every column of dots spans the lowest to the highest value in its stretch of x, so no peak is lost. The floor is the
//! engine's own; it is drawn where the curve stands above it, because elsewhere the curve is the floor.

use super::verdict::wrapped;
use lowtide_model::{Axis, Bytes};
use lowtide_verdict::{Drawing, Point, both};
use std::fmt::Write as _;

/// Without a terminal.
const USUAL_WIDTH: usize = 80;
/// Room for the sizes on the left.
const LABELS: usize = 10;
const ROWS: usize = 14;
const NARROWEST: usize = 20;
const WIDEST: usize = 200;
/// A limit is drawn when it is at most this much above the highest point.
const IN_SIGHT: f64 = 1.5;
/// A curve that stays above this share of its peak is drawn without the part below it.
const ZOOM_FROM: f64 = 0.5;
/// Dots of one character, by row and column.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
const EMPTY: u32 = 0x2800;
/// Signs of the futures, the likeliest first.
const FUTURES: [char; 2] = ['*', '+'];

/// The picture, with a line that tells what is what.
pub(crate) fn plot(drawing: &Drawing, limit: Option<f64>, width: Option<usize>) -> String {
    let columns = width.unwrap_or(USUAL_WIDTH).saturating_sub(LABELS + 2).clamp(NARROWEST, WIDEST);
    let Some(bands) = Bands::of(drawing, 2 * columns) else {
        return "  nothing to draw: no two samples at different places\n".to_owned();
    };
    let scale = Scale::over(&bands, drawing, limit);
    Picture { drawing, bands: &bands, scale: &scale, columns, limit }.text()
}

/// Lowest and highest value of each column of dots; none where only the future is.
struct Bands {
    from: f64,
    to: f64,
    spans: Vec<Option<(f64, f64)>>,
}

impl Bands {
    fn of(drawing: &Drawing, columns: usize) -> Option<Self> {
        let (from, now) = (drawing.curve.first()?.x, drawing.curve.last()?.x);
        let ahead = drawing.futures.iter().filter_map(|future| Some(future.1.last()?.0));
        let to = ahead.fold(now, f64::max);
        if now <= from {
            return None;
        }
        let column = |x: f64| ((x - from) / (to - from) * (columns - 1) as f64).round() as usize;
        let seen = (column(now) + 1).min(columns);
        let mut spans: Vec<Option<(f64, f64)>> = vec![None; seen];
        for Point { x, low, high, .. } in drawing.curve.iter().copied() {
            let span = spans.get_mut(column(x))?;
            *span = Some(span.map_or((low, high), |(a, b)| (a.min(low), b.max(high))));
        }
        let mut spans: Vec<Option<(f64, f64)>> = between(&spans)?.into_iter().map(Some).collect();
        spans.resize(columns, None);
        Some(Self { from, to, spans })
    }

    /// The place of a column of characters.
    fn x(&self, column: usize, columns: usize) -> f64 {
        let part = column as f64 / (columns.max(2) - 1) as f64;
        part.mul_add(self.to - self.from, self.from)
    }
}

/// The height of a broken line at a place; none outside of it.
fn height(line: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = line.partition_point(|point| point.0 < x);
    let (b, a) = (line.get(after)?, line[after.saturating_sub(1)]);
    if after == 0 {
        return (b.0 <= x).then_some(b.1);
    }
    let share = if b.0 > a.0 { (x - a.0) / (b.0 - a.0) } else { 1.0 };
    Some(share.mul_add(b.1 - a.1, a.1))
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

/// What the rows span.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(bands: &Bands, drawing: &Drawing, limit: Option<f64>) -> Self {
        let spans = || bands.spans.iter().flatten();
        let ahead = drawing.futures.iter().flat_map(|future| &future.1).map(|point| point.1);
        let peak = spans().map(|span| span.1).chain(ahead).fold(0.0, f64::max);
        let bottom = spans().map(|span| span.0).fold(f64::INFINITY, f64::min);
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
    drawing: &'a Drawing,
    bands: &'a Bands,
    scale: &'a Scale,
    columns: usize,
    limit: Option<f64>,
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
        for column in 0..self.columns {
            self.draw_floor(&mut cells, column);
            let x = self.bands.x(column, self.columns);
            for (sign, (_, course)) in FUTURES.iter().zip(&self.drawing.futures) {
                if let Some(at) = height(course, x) {
                    mark(&mut cells, self.scale.dot(at) / 4, column, *sign);
                }
            }
        }
        if let Some(limit) = self.limit_in_sight() {
            (0..self.columns).for_each(|column| mark(&mut cells, self.scale.dot(limit) / 4, column, '='));
        }
        for (sign, place) in [('|', self.drawing.knee), (':', self.pass_in_sight())] {
            if let Some(column) = place.map(|place| self.column(place)) {
                (0..ROWS).for_each(|row| mark(&mut cells, row, column, sign));
            }
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

    /// The floor, where the curve stands clearly above it; elsewhere the curve is the floor.
    fn draw_floor(&self, cells: &mut [Vec<char>], column: usize) {
        let Some(floor) = height(&self.drawing.floor, self.bands.x(column, self.columns)) else { return };
        let row = self.scale.dot(floor) / 4;
        let tops = self.bands.spans.iter().skip(2 * column).take(2).flatten();
        let stands = tops.map(|span| self.scale.dot(span.1) / 4).any(|top| top + 1 < row);
        if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column))
            && (stands || *cell == ' ')
        {
            *cell = '_';
        }
    }

    fn curve(&self) -> Vec<Vec<char>> {
        let mut dots = vec![vec![0_u32; self.columns]; ROWS];
        for (column, span) in self.bands.spans.iter().enumerate() {
            let Some((low, high)) = *span else { continue };
            // Joined to its neighbour, so that a jump is a line and not two ends.
            let before = column.checked_sub(1).and_then(|before| self.bands.spans[before]);
            let (low, high) = before.map_or((low, high), |(a, b)| (low.min(b), high.max(a)));
            for dot in self.scale.dot(high)..=self.scale.dot(low) {
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

    /// The end of the first pass, where it lies in the picture and is not where growth ended.
    fn pass_in_sight(&self) -> Option<f64> {
        let inside = self.drawing.pass.filter(|pass| (self.bands.from..=self.bands.to).contains(pass))?;
        let knee = self.drawing.knee.map(|knee| self.column(knee));
        (knee != Some(self.column(inside))).then_some(inside)
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
        if let Some(knee) = self.drawing.knee {
            let (left, place) = (self.column(knee), self.place(knee));
            let _ = writeln!(text, "{:LABELS$} {}", "", phases(left, self.columns, &place));
        }
        let mut signs = vec!["dots: memory".to_owned(), "_ floor".to_owned()];
        match (self.limit_in_sight(), self.limit) {
            (Some(limit), _) => signs.push(format!("= limit {}", both(limit))),
            (None, Some(limit)) => signs.push(format!("limit {} is above the picture", both(limit))),
            (None, None) => {}
        }
        if self.drawing.knee.is_some() {
            signs.push("| growth ended".to_owned());
        }
        if let Some(pass) = self.pass_in_sight() {
            signs.push(format!(": the first pass over the data ends, {}", self.place(pass)));
        }
        let futures = FUTURES.iter().zip(&self.drawing.futures);
        signs.extend(futures.map(|(sign, (kind, _))| format!("{sign} if {}", kind.word())));
        let legend = wrapped(&signs.join(", "), LABELS + 1, Some(self.columns + LABELS + 1));
        let _ = writeln!(text, "{:LABELS$} {legend}", "");
        text
    }

    fn place(&self, x: f64) -> String {
        let digits = usize::from(x.abs() < 100.0 && x.fract().abs() > 0.05);
        match self.drawing.axis {
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

    fn drawing(points: impl IntoIterator<Item = (f64, f64)>) -> Drawing {
        let curve: Vec<Point> = points.into_iter().map(|(x, y)| Point::one(x, y)).collect();
        Drawing { axis: Axis::Step, curve, ..Drawing::default() }
    }

    #[test]
    fn a_rise_that_settles_shows_curve_phases_and_limit() {
        let knee = |x: f64| (x, 1e9 + 1e8 * x.min(50.0));
        let settled = Drawing { knee: Some(50.0), ..drawing((0..=100).map(|x| knee(f64::from(x)))) };
        let text = plot(&settled, Some(7e9), None);
        assert!(text.lines().all(|line| line.chars().count() <= USUAL_WIDTH), "{text}");
        assert!(text.contains("growing") && text.contains("settled since step 50"), "{text}");
        assert!(text.contains("= limit 6.52 GiB (7.0 GB)") && text.contains("====="), "{text}");
        assert!(text.contains("step 0") && text.contains("step 100"), "{text}");
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[ROWS - 1].trim_start().starts_with("0 B") && rows[0].contains("6.52 GiB"), "{text}");
    }

    #[test]
    fn the_floor_of_the_engine_is_drawn_under_the_peaks() {
        let spiky = (0..400).map(|x| (f64::from(x), if x % 40 >= 30 { 9e9 } else { 1e9 }));
        let floor = vec![(0.0, 1e9), (399.0, 1e9)];
        let text = plot(&Drawing { floor, ..drawing(spiky) }, None, None);
        let low: Vec<&str> =
            text.lines().filter(|line| line.contains('_') && !line.contains("floor")).collect();
        assert_eq!(low.len(), 1, "{text}");
        assert!(low[0].matches('_').count() >= 12, "under each of ten peaks: {text}");
    }

    #[test]
    fn what_may_come_is_drawn_beyond_what_was_seen() {
        let kind = lowtide_verdict::Kind::Leak;
        let futures = vec![
            (lowtide_verdict::Kind::CacheFill, vec![(50.0, 6e9), (80.0, 9e9), (120.0, 9e9)]),
            (kind, vec![(50.0, 6e9), (120.0, 13e9)]),
        ];
        let rise = drawing((0..=50).map(|x| (f64::from(x), 1e9 + 1e8 * f64::from(x))));
        let text = plot(&Drawing { futures, pass: Some(80.0), ..rise }, None, None);
        assert!(text.contains("step 120") && text.contains("* if cache-fill, + if leak"), "{text}");
        assert!(text.contains(": the first pass over the data ends, step 80"), "{text}");
        assert!(text.matches('*').count() > 20 && text.matches('+').count() > 15, "{text}");
    }

    #[test]
    fn a_single_place_is_no_picture() {
        assert!(plot(&drawing([(5.0, 1e9), (5.0, 2e9)]), None, None).contains("nothing to draw"));
        assert!(plot(&drawing([]), None, None).contains("nothing to draw"));
    }

    proptest! {
        #[test]
        fn no_curve_panics_and_no_line_is_too_long(
            points in prop::collection::vec((-1e18_f64..1e18, -1e20_f64..1e20), 0..80),
            floor in prop::collection::vec((-1e18_f64..1e18, -1e20_f64..1e20), 0..8),
            width in 0_usize..400,
            limit in prop::option::of(-1e12_f64..1e20),
        ) {
            let mut points = points;
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let knee = Some(3.0);
            let futures = vec![(lowtide_verdict::Kind::Leak, floor.clone())];
            let text = plot(&Drawing { knee, floor, futures, ..drawing(points) }, limit, Some(width));
            prop_assert!(!text.is_empty());
        }
    }
}
