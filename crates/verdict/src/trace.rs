//! One curve as it was measured, over steps or seconds: what numeric gates and comparisons look at.
//!
//! Beside the judged curve (see `drawing`), which is what a process can lose nothing of. Not here: what it means.

use crate::marks::Marks;
use crate::series::Point;
use crate::total::tree_totals;
use crate::verdict::Verdict;
use lowtide_model::{Axis, Context, Curve, Mark, MarkKind, Recording, Tick};
use std::collections::BTreeSet;

/// Steps told by marks before a curve is drawn over steps, as in the verdict.
const FEWEST_STEPS: usize = 10;

/// A measured curve, in the order of x.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// What x counts.
    pub axis: Axis,
    /// Lowest, highest and newest value at each place.
    pub points: Vec<Point>,
    /// Where each of them begins to count: a row stands for the time since the row before it.
    since: Vec<f64>,
}

impl Trace {
    /// A curve of others, as it was measured.
    pub fn of_curve(curve: &Curve) -> Self {
        let pairs = curve.x.iter().zip(&curve.y).filter(|(x, y)| x.is_finite() && y.is_finite());
        let mut points: Vec<Point> = pairs.map(|(&x, &y)| Point::one(x, y)).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let since = points.iter().map(|point| point.x).collect();
        Self { axis: curve.axis, points, since }
    }

    /// The whole tree of a recording, shared pages counted once.
    pub fn of_tree(recording: &Recording) -> Self {
        let steps = Steps::of(&recording.marks);
        let axis = if steps.0.len() >= FEWEST_STEPS { Axis::Step } else { Axis::Seconds };
        let place = |tick: Tick| match axis {
            Axis::Step => steps.at(tick),
            Axis::Seconds | Axis::Sample | Axis::Epoch => Some(tick.seconds()),
        };
        // Rows are written when something moves: one that stands for several ticks says where it stayed until then.
        let rests = recording.samples.iter().filter(|row| row.ticks > 1);
        let rests: BTreeSet<Tick> = rests.map(|row| row.tick).collect();
        let mut trace = Self { axis, ..Self::default() };
        for (tick, total, _) in tree_totals(recording) {
            let Some(x) = place(tick) else { continue };
            let before = trace.points.last().map(|point| point.x).filter(|_| rests.contains(&tick));
            trace.since.push(before.unwrap_or(x));
            trace.points.push(Point::one(x, total.bytes.as_f64()));
        }
        trace
    }

    /// The part that counts between two places, both included.
    pub fn between(&self, from: f64, to: f64) -> &[Point] {
        let start = self.points.partition_point(|point| point.x < from);
        let end = self.since.partition_point(|since| *since <= to);
        self.points.get(start..end).unwrap_or_default()
    }

    /// First and last place.
    pub fn ends(&self) -> Option<(f64, f64)> {
        Some((self.points.first()?.x, self.points.last()?.x))
    }
}

/// Steps by the time they were told.
#[derive(Clone, Debug, Default)]
pub struct Steps(Vec<(Tick, f64)>);

impl Steps {
    /// Gathers them from the marks of a run.
    pub fn of(marks: &[Mark]) -> Self {
        let mut steps: Vec<(Tick, f64)> = Vec::new();
        for mark in marks.iter().filter(|mark| mark.kind == MarkKind::Step && mark.number.is_finite()) {
            // Several ranks tell the same step; only the first telling of a new one counts.
            if steps.last().is_none_or(|(_, step)| mark.number > *step) {
                steps.push((mark.tick, mark.number));
            }
        }
        Self(steps)
    }

    /// The step at a moment; none before the first.
    pub fn at(&self, tick: Tick) -> Option<f64> {
        let after = self.0.partition_point(|(told, _)| *told <= tick);
        self.0.get(after.checked_sub(1)?).map(|(_, step)| *step)
    }
}

/// What a recording was judged by, as a plain curve: for judging several runs together.
pub fn curve_of(recording: &Recording, verdict: &Verdict, asked: &Context) -> Curve {
    let mut marks = Marks::default();
    recording.marks.iter().for_each(|mark| marks.push(mark));
    let drawing = &verdict.drawing;
    Curve {
        name: recording.meta.name.clone(),
        axis: drawing.axis,
        x: drawing.curve.iter().map(|point| point.x).collect(),
        y: drawing.curve.iter().map(|point| point.last).collect(),
        context: marks.known(asked),
        ..Curve::default()
    }
}
