//! What each explanation that still fits says will come, as lines to draw behind the end of the curve.
//!
//! The engine's own courses while it is too early to say; of a leak, the way on to its limit.

use super::Line;
use lowtide_verdict::{Group, Kind, Verdict};
use serde::Serialize;

/// A leak is drawn on at most this part of what was seen.
const AHEAD: f64 = 0.5;

/// One future.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Future {
    pub(crate) kind: Kind,
    pub(crate) predicts: String,
    /// Places and levels, from the end of the curve on.
    pub(crate) points: Vec<(f64, f64)>,
}

/// The futures of an answer. A job that died of it has none.
pub(crate) fn futures(main: &Verdict, line: &Line) -> Vec<Future> {
    if main.outcome.death.is_some() {
        return Vec::new();
    }
    let predicts = |kind: Kind| main.explanations.iter().find(|e| e.kind == kind).map(|e| e.predicts.clone());
    let told = main.drawing.futures.iter().cloned().chain(on_to_the_limit(main, line));
    told.filter(|(_, points)| points.iter().all(|(x, y)| x.is_finite() && y.is_finite()))
        .map(|(kind, points)| Future { kind, predicts: predicts(kind).unwrap_or_default(), points })
        .collect()
}

/// A leak goes on at its rate, until the limit or as far as a picture can show.
fn on_to_the_limit(main: &Verdict, line: &Line) -> Option<(Kind, Vec<(f64, f64)>)> {
    let rate = main.floor.bytes_per_step;
    let (first, last) = (*line.x.first()?, *line.x.last()?);
    let level = main.drawing.floor.last()?.1;
    if main.group != Group::Leak || rate <= 0.0 {
        return None;
    }
    let to_limit = main.outcome.limit_bytes.map_or(f64::INFINITY, |limit| (limit - level) / rate);
    let length = to_limit.min(AHEAD * (last - first));
    (length > 0.0).then(|| (Kind::Leak, vec![(last, level), (last + length, rate.mul_add(length, level))]))
}
