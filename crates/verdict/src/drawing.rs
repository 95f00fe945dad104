//! Gathers what a picture of an answer shows: the curve that was judged, its floor, where it turned, what may come.
//!
//! The engine's own points, so that what is drawn is what was judged. Not here: dots and columns (see `lowtide`).

use crate::budget::pass;
use crate::series::{Point, Series};
use crate::verdict::{Drawing, Kind};
use crate::words::Story;

/// The future is drawn as far again as this part of what was seen, beyond where it is decided.
const AHEAD: f64 = 0.3;

impl Story<'_> {
    pub(crate) fn drawing(&self, series: &Series) -> Drawing {
        let floor = &self.seen.floor;
        let one =
            |bin: &crate::series::Bin| Point { x: bin.x(), low: bin.low, high: bin.high, last: bin.last };
        Drawing {
            axis: self.axis,
            curve: series.bins().iter().map(one).collect(),
            floor: floor.x.iter().copied().zip(floor.y.iter().copied()).collect(),
            knee: self.facts.knee.map(|knee| knee.0),
            pass: pass(self.context, self.axis),
            futures: self.courses(),
        }
    }

    /// The course of each explanation that still stands, from the newest sample on.
    fn courses(&self) -> Vec<(Kind, Vec<(f64, f64)>)> {
        let f = self.facts;
        let rises = f.growth.rate > f.growth.margin && f.growth.rate > 0.0;
        if self.kind != Kind::TooEarly || !rises {
            return Vec::new();
        }
        let pass = pass(self.context, self.axis).filter(|pass| *pass > f.last);
        let turn = pass.or(self.decided_at).unwrap_or(f.last).max(f.last);
        let end = AHEAD.mul_add(turn - f.first, turn);
        let level = |x: f64| f.growth.rate.mul_add(x - f.last, f.end);
        let course = |kind: Kind| match kind {
            Kind::Leak => vec![(f.last, f.end), (end, level(end))],
            Kind::CacheFill if pass.is_some() => {
                vec![(f.last, f.end), (turn, level(turn)), (end, level(turn))]
            }
            Kind::CacheFill
            | Kind::WarmUp
            | Kind::AllocatorKept
            | Kind::WorkerCopies
            | Kind::Spikes
            | Kind::PageCache
            | Kind::Steady
            | Kind::TooEarly => vec![(f.last, f.end), (end, f.end)],
        };
        self.explanations().iter().take(2).map(|e| (e.kind, course(e.kind))).collect()
    }
}

impl Drawing {
    /// Puts every x somewhere else.
    pub(crate) fn moved(&mut self, to: impl Fn(f64) -> f64) {
        self.curve.iter_mut().for_each(|point| point.x = to(point.x));
        self.floor.iter_mut().for_each(|point| point.0 = to(point.0));
        self.knee = self.knee.map(&to);
        self.pass = self.pass.map(&to);
        self.futures.iter_mut().flat_map(|future| &mut future.1).for_each(|point| point.0 = to(point.0));
    }
}
