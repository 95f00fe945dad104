//! Counts what a job marked: steps, passes, evaluations, saves. With several ranks, those of the lowest: all do the same.

use lowtide_model::{Mark, MarkKind, MarkPhase, Recording};
use serde::Serialize;
use std::collections::BTreeSet;

/// What a job marked over its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tally {
    /// The highest step.
    pub steps: Option<f64>,
    /// Passes over the data that ended.
    pub epochs: u64,
    /// Evaluations that began.
    pub evals: u64,
    /// Checkpoints whose writing began.
    pub saves: u64,
    /// Ranks that spoke.
    pub ranks: u64,
}

/// Counts the marks of a recording.
pub fn tally(recording: &Recording) -> Tally {
    let ranks: BTreeSet<u32> = recording.marks.iter().filter_map(|mark| mark.rank).collect();
    let lead = ranks.first().copied();
    let heard = |mark: &&Mark| mark.rank.is_none() || mark.rank == lead;
    let count = |kind: MarkKind, but: MarkPhase| {
        let marks = recording.marks.iter().filter(heard);
        marks.filter(|mark| mark.kind == kind && mark.phase != but).count() as u64
    };
    let steps = recording.marks.iter().filter(heard).filter(|mark| mark.kind == MarkKind::Step);
    let steps = steps.map(|mark| mark.number).filter(|step| step.is_finite()).max_by(f64::total_cmp);
    Tally {
        steps,
        epochs: count(MarkKind::Epoch, MarkPhase::Start),
        evals: count(MarkKind::Eval, MarkPhase::End),
        saves: count(MarkKind::Save, MarkPhase::End),
        ranks: ranks.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::Tick;

    #[test]
    fn the_lowest_rank_is_counted_and_each_thing_once() {
        let mark = |kind, phase, number, rank| Mark {
            tick: Tick::START,
            process: None,
            kind,
            phase,
            number,
            rank,
            extra: None,
        };
        let mut recording = Recording::default();
        for rank in [Some(1), Some(0)] {
            recording.marks.push(mark(MarkKind::Epoch, MarkPhase::Start, 0.0, rank));
            recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, 40.0, rank));
            recording.marks.push(mark(MarkKind::Eval, MarkPhase::Start, 40.0, rank));
            recording.marks.push(mark(MarkKind::Eval, MarkPhase::End, 40.0, rank));
            recording.marks.push(mark(MarkKind::Epoch, MarkPhase::End, 1.0, rank));
        }
        recording.marks.push(mark(MarkKind::Save, MarkPhase::Point, f64::NAN, None));
        recording.marks.push(mark(MarkKind::Step, MarkPhase::Point, 99.0, Some(1)));
        let found = tally(&recording);
        assert_eq!(found, Tally { steps: Some(40.0), epochs: 1, evals: 1, saves: 1, ranks: 2 });
        assert_eq!(tally(&Recording::default()), Tally::default());
    }
}
