//! One curve as it was measured, over steps or seconds: what `--plot` draws and `check --max-range` measures.
//!
//! Of a recording it is the memory that the verdict is about: what a process can lose nothing of (anonymous, shared,
//! swapped), or the whole tree. Not here: what the curve means (see `verdict`).

use super::subject::{Answer, Subject, What};
use lowtide_model::{Axis, Bytes, Context, Curve, Mark, MarkKind, ProcKey, Recording, SampleRow, Tick};
use lowtide_verdict::tree_totals;

/// Steps told by marks before a curve is drawn over steps, as in the verdict.
const FEWEST_STEPS: usize = 10;

/// The range of memory at one place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reach {
    pub(crate) x: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) last: f64,
}

/// A measured curve, in the order of x.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) axis: Axis,
    pub(crate) points: Vec<Reach>,
}

impl Trace {
    /// The curve that an answer is about.
    pub(crate) fn of(answer: &Answer) -> Self {
        match &answer.subject.what {
            What::Curve(curve) => Self::of_curve(curve),
            What::Recording(recording) => match &answer.run.main.process {
                Some(process) => Self::of_process(recording, process.key),
                None => Self::of_tree(recording),
            },
        }
    }

    /// What a number in a gate is held against: the curve, or the whole tree of a recording.
    pub(crate) fn of_all(subject: &Subject) -> Self {
        match &subject.what {
            What::Curve(curve) => Self::of_curve(curve),
            What::Recording(recording) => Self::of_tree(recording),
        }
    }

    fn of_curve(curve: &Curve) -> Self {
        let pairs = curve.x.iter().zip(&curve.y).filter(|(x, y)| x.is_finite() && y.is_finite());
        let mut points: Vec<Reach> = pairs.map(|(&x, &y)| Reach { x, low: y, high: y, last: y }).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Self { axis: curve.axis, points }
    }

    pub(crate) fn of_process(recording: &Recording, key: ProcKey) -> Self {
        let rows = recording.samples.iter().filter(|row| row.process == key);
        let measured = rows.map(|row| (row.tick, need(row))).collect();
        Self::placed(recording, measured)
    }

    pub(crate) fn of_tree(recording: &Recording) -> Self {
        let totals = tree_totals(recording).into_iter();
        let one = |bytes: Bytes| (bytes.as_f64(), bytes.as_f64(), bytes.as_f64());
        Self::placed(recording, totals.map(|(tick, total, _)| (tick, one(total.bytes))).collect())
    }

    fn placed(recording: &Recording, measured: Vec<(Tick, (f64, f64, f64))>) -> Self {
        let steps = Steps::of(&recording.marks);
        let axis = if steps.0.len() >= FEWEST_STEPS { Axis::Step } else { Axis::Seconds };
        let place = |tick: Tick| match axis {
            Axis::Step => steps.at(tick),
            Axis::Seconds | Axis::Sample | Axis::Epoch => Some(tick.seconds()),
        };
        let point = |(tick, (low, high, last))| Some(Reach { x: place(tick)?, low, high, last });
        Self { axis, points: measured.into_iter().filter_map(point).collect() }
    }

    /// The part between two places, both included.
    pub(crate) fn between(&self, from: f64, to: f64) -> &[Reach] {
        let start = self.points.partition_point(|point| point.x < from);
        let end = self.points.partition_point(|point| point.x <= to);
        self.points.get(start..end).unwrap_or_default()
    }

    /// First and last place.
    pub(crate) fn ends(&self) -> Option<(f64, f64)> {
        Some((self.points.first()?.x, self.points.last()?.x))
    }
}

/// Low, high and last of what can't be taken back: anonymous memory with what is shared and swapped beside it.
fn need(row: &SampleRow) -> (f64, f64, f64) {
    let beside = row.shmem.unwrap_or_default().as_f64() + row.swap.unwrap_or_default().as_f64();
    let file = row.file.unwrap_or_default();
    let own = row.anon.unwrap_or(lowtide_model::Span {
        min: row.rss.min.saturating_sub(file),
        max: row.rss.max.saturating_sub(file),
        last: row.rss.last.saturating_sub(file),
    });
    (own.min.as_f64() + beside, own.max.as_f64() + beside, own.last.as_f64() + beside)
}

/// Steps by the time they were told.
struct Steps(Vec<(Tick, f64)>);

impl Steps {
    fn of(marks: &[Mark]) -> Self {
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
    fn at(&self, tick: Tick) -> Option<f64> {
        let after = self.0.partition_point(|(told, _)| *told <= tick);
        self.0.get(after.checked_sub(1)?).map(|(_, step)| *step)
    }
}

/// A recording's judged process as a plain curve, for judging several runs together.
pub(crate) fn as_curve(answer: &Answer) -> Curve {
    match &answer.subject.what {
        What::Curve(curve) => (**curve).clone(),
        What::Recording(recording) => {
            let trace = Trace::of(answer);
            Curve {
                name: answer.subject.label.clone(),
                axis: trace.axis,
                x: trace.points.iter().map(|point| point.x).collect(),
                y: trace.points.iter().map(|point| point.last).collect(),
                context: told_by_marks(recording, &answer.subject.asked),
                ..Curve::default()
            }
        }
    }
}

/// The sizes a job stated in its marks, under what the user said.
fn told_by_marks(recording: &Recording, asked: &Context) -> Context {
    let facts: Vec<serde_json::Value> =
        recording.marks.iter().filter_map(|mark| serde_json::from_str(mark.extra.as_deref()?).ok()).collect();
    let fact = |name: &str| facts.iter().rev().find_map(|fact| fact.get(name)?.as_f64());
    Context {
        examples: asked.examples.or_else(|| fact("examples")),
        batch: asked.batch.or_else(|| fact("batch")),
        accum: asked.accum.or_else(|| fact("accum")),
        world_size: asked.world_size.or_else(|| fact("world_size")),
        epoch_steps: asked.epoch_steps.or_else(|| fact("epoch_steps")),
        ..asked.clone()
    }
}
