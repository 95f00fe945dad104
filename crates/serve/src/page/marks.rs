//! Where the job said that passes began, that it evaluated and that it saved, on the axis of the curve.

use lowtide_model::{Axis, Curve, MarkKind, MarkPhase, Recording};
use lowtide_verdict::Steps;
use serde::Serialize;

/// More marks than this of one kind are a pattern nobody can tell apart; every second one is left out until they fit.
const MOST_MARKS: usize = 200;

/// A stretch: an evaluation, a save.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Stretch {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// A moment with a number: an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Moment {
    pub(crate) x: f64,
    pub(crate) number: f64,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Marked {
    pub(crate) epochs: Vec<Moment>,
    pub(crate) evals: Vec<Stretch>,
    pub(crate) saves: Vec<Stretch>,
}

impl Marked {
    pub(crate) fn of_recording(recording: &Recording, axis: Axis) -> Self {
        let steps = Steps::of(&recording.marks);
        let place = |tick| match axis {
            Axis::Step => steps.at(tick).unwrap_or(0.0),
            Axis::Seconds | Axis::Sample | Axis::Epoch => lowtide_model::Tick::seconds(tick),
        };
        let mut out = Self::default();
        let mut open: [Option<f64>; 2] = [None, None];
        for mark in &recording.marks {
            let x = place(mark.tick);
            let (stretches, open) = match mark.kind {
                MarkKind::Epoch if mark.phase != MarkPhase::End => {
                    out.epochs.push(Moment { x, number: mark.number });
                    continue;
                }
                MarkKind::Eval => (&mut out.evals, &mut open[0]),
                MarkKind::Save => (&mut out.saves, &mut open[1]),
                MarkKind::Step | MarkKind::Epoch | MarkKind::Load | MarkKind::Info | MarkKind::Custom => {
                    continue;
                }
            };
            match mark.phase {
                MarkPhase::Start => *open = Some(x),
                MarkPhase::End => stretches.push(Stretch { from: open.take().unwrap_or(x), to: x }),
                MarkPhase::Point => stretches.push(Stretch { from: x, to: x }),
            }
        }
        out.evals.extend(open[0].map(|from| Stretch { from, to: from }));
        out.saves.extend(open[1].map(|from| Stretch { from, to: from }));
        out.epochs.dedup_by(|a, b| (a.x - b.x).abs() < 1e-9);
        out.thinned()
    }

    pub(crate) fn of_curve(curve: &Curve, pass: Option<f64>) -> Self {
        let stretch = |x: &f64| Stretch { from: *x, to: *x };
        let context = &curve.context;
        let last = curve.x.iter().copied().filter(|x| x.is_finite()).fold(0.0, f64::max);
        let pass = pass.filter(|pass| *pass > 0.0 && last / pass < MOST_MARKS as f64);
        let epochs = pass.into_iter().flat_map(|pass| {
            (1..)
                .map(move |n| Moment { x: pass * f64::from(n), number: f64::from(n) })
                .take_while(move |m| m.x <= last)
        });
        Self {
            epochs: epochs.collect(),
            evals: context.validation_x.iter().map(stretch).collect(),
            saves: context.save_x.iter().map(stretch).collect(),
        }
        .thinned()
    }

    fn thinned(mut self) -> Self {
        thin(&mut self.epochs);
        thin(&mut self.evals);
        thin(&mut self.saves);
        self
    }
}

fn thin<T: Clone>(marks: &mut Vec<T>) {
    while marks.len() > MOST_MARKS {
        *marks = marks.iter().step_by(2).cloned().collect();
    }
}
