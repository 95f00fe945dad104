//! Draws: a frame with ticks, then layer over layer from the phases behind the curve to the words in front of it.

use super::axis::{View, place_ticks, size_ticks};
use crate::page::{Figure, Layer, Page};
use lowtide_model::Axis;
use lowtide_verdict::both;
use maud::{Markup, PreEscaped, html};
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 42.0;
/// A save and an evaluation without length are this wide.
const THIN: f64 = 1.5;

/// Colours of a picture that has no page around it.
const ALONE: &str = include_str!("alone.css");

/// Whether a page stands around the picture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    Alone,
    Inline,
}

struct Plane {
    view: View,
}

impl Plane {
    fn x(&self, x: f64) -> f64 {
        let part = (x - self.view.x.0) / (self.view.x.1 - self.view.x.0);
        round(LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT))
    }

    fn y(&self, y: f64) -> f64 {
        let part = (y - self.view.y.0) / (self.view.y.1 - self.view.y.0);
        round(HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM))
    }

    fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (x, y) in points {
            let verb = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{} {}", self.x(x), self.y(y));
        }
        path
    }

    /// Cuts a future where it leaves the picture.
    fn inside(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let top = self.view.y.1;
        let mut out: Vec<(f64, f64)> = Vec::new();
        for &(x, y) in points {
            if y > top {
                if let Some(&(x0, y0)) = out.last().filter(|p| p.1 < top && y > p.1) {
                    out.push((x0 + (x - x0) * (top - y0) / (y - y0), top));
                }
                break;
            }
            out.push((x, y));
        }
        out
    }
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

pub(super) fn svg(page: &Page, frame: Frame) -> Markup {
    let figure = &page.figure;
    let title = format!("{}: {}", figure.what, page.verdict.headline);
    let Some(view) = figure.view else {
        return html! { p.empty { "Nothing to draw: no samples." } };
    };
    let plane = Plane { view };
    html! {
        svg.figure viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) xmlns="http://www.w3.org/2000/svg" role="img" aria-label=(title) {
            title { (title) }
            @if frame == Frame::Alone {
                style { (PreEscaped(ALONE)) }
                rect.paper width=(WIDTH) height=(HEIGHT) {}
            }
            (frame_lines(&plane, figure))
            (behind(&plane, figure))
            (curve(&plane, figure))
            (ahead(&plane, figure))
        }
    }
}

/// Grid, ticks and what x counts.
fn frame_lines(plane: &Plane, figure: &Figure) -> Markup {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    html! {
        @for (value, label) in size_ticks(plane.view.y) {
            line.grid x1=(LEFT) x2=(right) y1=(plane.y(value)) y2=(plane.y(value)) {}
            text.tick x=(LEFT - 8.0) y=(plane.y(value) + 4.0) text-anchor="end" { (label) }
        }
        @for (value, label) in place_ticks(plane.view.x, figure.axis) {
            line.grid x1=(plane.x(value)) x2=(plane.x(value)) y1=(bottom) y2=(bottom + 5.0) {}
            text.tick x=(plane.x(value)) y=(bottom + 18.0) text-anchor="middle" { (label) }
        }
        text.tick x=(right) y=(HEIGHT - 6.0) text-anchor="end" { (axis_word(figure.axis)) }
    }
}

pub(crate) const fn axis_word(axis: Axis) -> &'static str {
    match axis {
        Axis::Step => "step",
        Axis::Seconds => "time since the start",
        Axis::Sample => "sample",
        Axis::Epoch => "epoch",
    }
}

/// Evaluations, saves, epochs and phases.
fn behind(plane: &Plane, figure: &Figure) -> Markup {
    let (top, bottom) = (TOP, HEIGHT - BOTTOM);
    let wide = |from: f64, to: f64| (plane.x(to) - plane.x(from)).max(THIN);
    html! {
        @for eval in &figure.marks.evals {
            rect.eval x=(plane.x(eval.from)) y=(top) width=(round(wide(eval.from, eval.to))) height=(bottom - top) {}
        }
        @for save in &figure.marks.saves {
            rect.save x=(plane.x(save.from)) y=(bottom - 8.0) width=(round(wide(save.from, save.to))) height="8" {}
        }
        @for epoch in &figure.marks.epochs {
            line.epoch x1=(plane.x(epoch.x)) x2=(plane.x(epoch.x)) y1=(top) y2=(bottom) {}
        }
        @for phase in &figure.phases {
            line.phase x1=(plane.x(phase.from)) x2=(plane.x(phase.to)) y1=(top - 8.0) y2=(top - 8.0) {}
            line.phase x1=(plane.x(phase.to)) x2=(plane.x(phase.to)) y1=(top - 12.0) y2=(top - 4.0) {}
            @if wide(phase.from, phase.to) > 60.0 {
                text.phase-name x=(round(f64::midpoint(plane.x(phase.from), plane.x(phase.to)))) y=(top - 13.0) text-anchor="middle" { (phase.name) }
            }
        }
    }
}

fn curve(plane: &Plane, figure: &Figure) -> Markup {
    let line = &figure.line;
    let high = line.x.iter().copied().zip(line.high.iter().copied());
    let low = line.x.iter().copied().zip(line.low.iter().copied()).rev();
    let band = format!("{}Z", plane.path(high.chain(low)));
    let last = plane.path(line.x.iter().copied().zip(line.last.iter().copied()));
    let shown = figure.floor.iter().copied().filter(|(x, _)| *x >= plane.view.x.0 && *x <= plane.view.x.1);
    let floor = plane.path(shown);
    html! {
        path.band d=(band) {}
        path.curve d=(last) {}
        @if !floor.is_empty() { path.floor d=(floor) {} }
    }
}

/// The futures and the limit.
fn ahead(plane: &Plane, figure: &Figure) -> Markup {
    let limit = figure.limit.as_ref().filter(|limit| plane.view.shows(limit.bytes));
    html! {
        @for (n, future) in figure.futures.iter().enumerate() {
            @let points = plane.inside(&future.points);
            path class=(format!("future f{n} kind-{}", future.kind.word())) d=(plane.path(points.iter().copied())) {}
            @if let Some((x, y)) = points.last() {
                text class=(format!("future-name kind-{}", future.kind.word())) x=(plane.x(*x) - 4.0) y=(plane.y(*y) - 6.0) text-anchor="end" {
                    "if " (future.kind.word().replace('-', " "))
                }
            }
        }
        @if let Some(limit) = limit {
            line.limit x1=(LEFT) x2=(WIDTH - RIGHT) y1=(plane.y(limit.bytes)) y2=(plane.y(limit.bytes)) {}
            text.limit-name x=(LEFT + 6.0) y=(plane.y(limit.bytes) - 5.0) { "limit " (both(limit.bytes)) }
        }
    }
}

/// Layers one over the other, with their names beside.
pub(super) fn layers(seconds: &[f64], layers: &[Layer]) -> Markup {
    let mut sums: Vec<Vec<f64>> = vec![vec![0.0; seconds.len()]];
    for layer in layers {
        let below = sums.last().cloned().unwrap_or_default();
        sums.push(below.iter().zip(&layer.bytes).map(|(a, b)| a + b).collect());
    }
    let top = sums.last().into_iter().flatten().copied().fold(1.0, f64::max);
    let end = seconds.last().copied().unwrap_or(1.0);
    let plane = Plane { view: View { x: (0.0, end), y: (0.0, top * 1.05) } };
    let line = |sum: &[f64]| seconds.iter().copied().zip(sum.iter().copied()).collect::<Vec<_>>();
    let area = |n: usize| {
        let (low, high) = (line(&sums[n]), line(&sums[n + 1]));
        format!("{}Z", plane.path(high.into_iter().chain(low.into_iter().rev())))
    };
    let figure = Figure { axis: Axis::Seconds, ..Figure::default() };
    html! {
        svg.figure viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label="memory over time in layers" {
            (frame_lines(&plane, &figure))
            @for n in 0..layers.len() { path class=(format!("layer l{n}")) d=(area(n)) {} }
        }
        ul.legend { @for (n, layer) in layers.iter().enumerate() { li { span class=(format!("key layer-key l{n}")) {} (layer.name) } } }
    }
}

/// A small curve without any words.
pub(super) fn spark(levels: &[f64], limit: Option<f64>) -> Markup {
    const W: f64 = 120.0;
    const H: f64 = 28.0;
    let peak = levels.iter().copied().fold(1.0, f64::max);
    let limit = limit.filter(|limit| *limit <= 1.5 * peak && *limit > 0.0);
    let top = limit.map_or(peak, |limit| peak.max(limit));
    let last = levels.len().saturating_sub(1).max(1) as f64;
    let y = |level: f64| round(H - 2.0 - level / top * (H - 4.0));
    let mut path = String::new();
    for (n, level) in levels.iter().enumerate() {
        let verb = if n == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{verb}{} {}", round(n as f64 / last * W), y(*level));
    }
    html! {
        svg.spark viewBox=(format!("0 0 {W} {H}")) width=(W) height=(H) aria-hidden="true" {
            path.spark-fill d=(format!("{path}L{W} {H}L0 {H}Z")) {}
            path.spark-line d=(path) {}
            @if let Some(limit) = limit { line.limit x1="0" x2=(W) y1=(y(limit)) y2=(y(limit)) {} }
        }
    }
}

/// Several curves in one frame, from nothing to the highest.
pub(super) fn curves(curves: &[(&[f64], &[f64])]) -> Markup {
    let all = || curves.iter().flat_map(|(x, y)| x.iter().copied().zip(y.iter().copied()));
    let (right, top) = all().fold((1.0_f64, 1.0_f64), |(right, top), (x, y)| (right.max(x), top.max(y)));
    let plane = Plane { view: View { x: (0.0, right), y: (0.0, top * 1.05) } };
    let figure = Figure { axis: Axis::Step, ..Figure::default() };
    html! {
        svg.figure viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label="memory of several runs" {
            (frame_lines(&plane, &figure))
            @for (n, (x, y)) in curves.iter().enumerate() {
                path class=(format!("line s{}", n % 6)) d=(plane.path(x.iter().copied().zip(y.iter().copied()))) {}
            }
        }
    }
}
