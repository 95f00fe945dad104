//! The tree's memory over time, in braille dots: each column of dots spans the lowest to the highest total in its time.

use super::view::Palette;
use super::words;
use lowtide_model::{Bytes, LimitHeld, LimitKind};
use lowtide_wire::{Point, Snapshot};
use ratatui::Frame;
use ratatui::layout::{Alignment, Rect};
use ratatui::style::{Color, Style as Look};
use ratatui::symbols::Marker;
use ratatui::text::Line as TextLine;
use ratatui::widgets::canvas::{Canvas, Line};

/// Room for the sizes on the left.
const LABELS: u16 = 9;
/// Smaller than this there is no curve worth drawing.
const SMALLEST: (u16, u16) = (20, 3);
/// The end of the room is drawn when it is at most this much above the highest point.
const IN_SIGHT: f64 = 1.5;
/// A curve that stays above this share of its peak is drawn without the part below it.
const ZOOM_FROM: f64 = 0.5;
/// The axis never spans less than this share of the peak, so noise stays small.
const LEAST_SPAN: f64 = 0.1;

/// Draws the curve with its axes.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    points: &[Point],
    snapshot: &Snapshot,
    palette: Palette,
) {
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return;
    }
    let plot = Rect { x: area.x + LABELS, width: area.width - LABELS, height: area.height - 1, ..area };
    let columns = usize::from(plot.width) * 2;
    let Some(bands) = bands(points, columns) else {
        return;
    };
    let wall = wall(snapshot);
    let scale = Scale::over(&bands, wall.as_ref().map(|wall| wall.0));
    let wall = wall.filter(|(at, _)| *at <= scale.high);
    let canvas = Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, (columns - 1) as f64])
        .y_bounds([scale.low, scale.high])
        .paint(|ctx| {
            if let Some((at, _)) = &wall {
                let at = *at;
                ctx.draw(&Line {
                    x1: 0.0,
                    y1: at,
                    x2: (columns - 1) as f64,
                    y2: at,
                    color: shade(palette, Color::Red),
                });
            }
            for (column, (low, high)) in bands.iter().enumerate() {
                let x = column as f64;
                ctx.draw(&Line { x1: x, y1: *low, x2: x, y2: *high, color: shade(palette, Color::Cyan) });
            }
        });
    frame.render_widget(canvas, plot);
    sizes(frame, area, scale, wall.as_ref().map(|wall| wall.0), palette);
    times(frame, area, points, wall.map(|wall| wall.1), palette);
}

fn shade(palette: Palette, color: Color) -> Color {
    match palette {
        Palette::Coloured => color,
        Palette::Plain => Color::Reset,
    }
}

/// The total at which the tightest limit is reached if nobody else moves, and whose limit it is. Limits on other things
/// than resident memory have no place on this curve.
fn wall(snapshot: &Snapshot) -> Option<(f64, String)> {
    let counts = |limit: &&LimitHeld| match limit.kind {
        LimitKind::Cgroup { .. } | LimitKind::Host | LimitKind::Slurm | LimitKind::Asked => true,
        LimitKind::AddressSpace { .. } | LimitKind::DevShm => false,
    };
    let limit = snapshot.limits.iter().filter(counts).min_by_key(|limit| limit.headroom())?;
    let at = snapshot.total.bytes.saturating_add(limit.headroom());
    Some((at.as_f64(), words::limit_name(&limit.kind)))
}

/// Lowest and highest total for each column of dots; columns without a point take the one before.
fn bands(points: &[Point], columns: usize) -> Option<Vec<(f64, f64)>> {
    let (first, last) = (points.first()?.seconds, points.last()?.seconds);
    let span = if last - first > 0.0 { last - first } else { 1.0 };
    let mut bands: Vec<Option<(f64, f64)>> = vec![None; columns];
    for point in points {
        let column = ((point.seconds - first) / span * (columns.saturating_sub(1)) as f64) as usize;
        let band = bands.get_mut(column.min(columns.saturating_sub(1)))?;
        let (low, high) = (point.low_bytes.as_f64(), point.high_bytes.as_f64());
        *band = Some(band.map_or((low, high), |(lowest, highest)| (lowest.min(low), highest.max(high))));
    }
    let mut before = bands.iter().flatten().next().copied()?;
    let joined = bands.into_iter().map(|band| {
        let (low, high) = band.unwrap_or(before);
        // A step between two columns is drawn as an upright line, so the curve has no holes.
        let drawn = (low.min(before.1), high.max(before.0));
        before = (low, high);
        drawn
    });
    Some(joined.collect())
}

/// What the lowest and the highest line of dots stand for.
#[derive(Clone, Copy, Debug)]
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(bands: &[(f64, f64)], wall: Option<f64>) -> Self {
        let peak = bands.iter().map(|band| band.1).fold(1.0, f64::max);
        let floor = bands.iter().map(|band| band.0).fold(peak, f64::min);
        let seen = wall.filter(|wall| *wall <= peak * IN_SIGHT);
        let high = seen.map_or(peak, |wall| wall.max(peak)) * 1.02;
        let low = if floor > peak * ZOOM_FROM { floor } else { 0.0 };
        let low = low.min(high - high * LEAST_SPAN).max(0.0);
        Self { low, high }
    }
}

fn sizes(frame: &mut Frame<'_>, area: Rect, scale: Scale, wall: Option<f64>, palette: Palette) {
    let rows = area.height - 1;
    let mut label = |row: u16, size: f64, look: Look| {
        let text = TextLine::styled(Bytes::from_f64(size).to_string(), look).alignment(Alignment::Right);
        frame.render_widget(text, Rect { y: area.y + row, width: LABELS - 1, height: 1, ..area });
    };
    label(0, scale.high, palette.faint());
    label(rows - 1, scale.low, palette.faint());
    if let Some(at) = wall {
        let share = (scale.high - at) / (scale.high - scale.low);
        label((share.clamp(0.0, 1.0) * f64::from(rows - 1)).round() as u16, at, palette.look(Color::Red));
    }
}

fn times(frame: &mut Frame<'_>, area: Rect, points: &[Point], wall: Option<String>, palette: Palette) {
    let row = Rect { x: area.x + LABELS, y: area.bottom() - 1, width: area.width - LABELS, height: 1 };
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return;
    };
    let left = words::elapsed(first.seconds);
    let right = words::elapsed(last.seconds);
    let used = left.len() + right.len();
    frame.render_widget(TextLine::styled(left, palette.faint()), row);
    frame.render_widget(TextLine::styled(right, palette.faint()).alignment(Alignment::Right), row);
    let text = wall.map(|name| format!("line: {name} is full")).unwrap_or_default();
    let text = TextLine::styled(text, palette.look(Color::Red)).alignment(Alignment::Center);
    if text.width() + used + 6 <= usize::from(row.width) {
        frame.render_widget(text, row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(seconds: f64, low: u64, high: u64) -> Point {
        Point { seconds, low_bytes: Bytes(low), high_bytes: Bytes(high) }
    }

    #[test]
    fn a_peak_between_two_dots_is_seen() {
        let mut points: Vec<Point> = (0..1000).map(|i| point(f64::from(i), 100, 100)).collect();
        points[501] = point(501.0, 100, 900);
        let bands = bands(&points, 20).unwrap();
        assert!(bands.iter().any(|band| band.1 >= 900.0));
    }

    #[test]
    fn a_flat_curve_is_not_blown_up_to_waves() {
        let scale = Scale::over(&[(1_000.0, 1_001.0)], None);
        assert!(scale.high - scale.low >= 100.0);
    }

    #[test]
    fn a_wall_far_above_is_out_of_sight() {
        let near = Scale::over(&[(90.0, 100.0)], Some(140.0));
        let far = Scale::over(&[(90.0, 100.0)], Some(1_000.0));
        assert!(near.high > 140.0);
        assert!(far.high < 110.0);
    }

    #[test]
    fn an_address_space_limit_draws_no_wall() {
        let process = lowtide_model::ProcKey::default();
        let held = |kind| LimitHeld { kind, limit: Bytes(10), used: Bytes(4) };
        let mut snapshot =
            Snapshot { limits: vec![held(LimitKind::AddressSpace { process })], ..Snapshot::default() };
        assert!(wall(&snapshot).is_none());
        snapshot.total.bytes = Bytes(3);
        snapshot.limits.push(held(LimitKind::Host));
        assert_eq!(wall(&snapshot), Some((9.0, "host".to_owned())));
    }

    proptest! {
        #[test]
        fn any_curve_has_a_scale_it_fits_into(
            heights in prop::collection::vec((any::<u64>(), any::<u64>()), 1..50), columns in 1_usize..300
        ) {
            let points: Vec<Point> =
                (0_u32..).zip(&heights).map(|(i, (a, b))| point(f64::from(i), *a.min(b), *a.max(b))).collect();
            let bands = bands(&points, columns).unwrap();
            let scale = Scale::over(&bands, None);
            prop_assert_eq!(bands.len(), columns);
            prop_assert!(scale.low < scale.high);
            prop_assert!(bands.iter().all(|band| band.1 <= scale.high && band.0 >= scale.low));
        }
    }
}
