//! Thins step marks: at most one a second, and always the first, the newest and the last one of a pass over the data.
//!
//! A job may mark ten steps a second; numbers are absolute, so the steps between two rows can be told from the rows.
//! Only how long a pass is can't: the step before its mark says that. Not here: other marks, which are rare and all kept.

use lowtide_model::{Mark, MarkKind, MarkPhase, ProcKey, Tick};
use std::collections::BTreeMap;
use std::time::Duration;

/// The least distance of two step rows of one process.
const STEP_EVERY: Duration = Duration::from_secs(1);

/// Processes that may mark steps at once before the table is begun anew.
const SPEAKERS: usize = 256;

type Speaker = (Option<ProcKey>, MarkPhase, Option<u32>);

#[derive(Debug)]
struct Line {
    kept: Tick,
    number: f64,
    newest: Option<Mark>,
}

/// What was kept last, and what is newer than that, for each process that speaks.
#[derive(Debug, Default)]
pub(crate) struct StepThinner {
    lines: BTreeMap<Speaker, Line>,
}

impl StepThinner {
    /// Gives the marks to keep to `keep`: this one, an older one, both or none.
    pub(crate) fn push(&mut self, mark: Mark, mut keep: impl FnMut(Mark)) {
        if mark.kind == MarkKind::Epoch {
            self.flush(&mut keep);
        }
        if mark.kind != MarkKind::Step {
            return keep(mark);
        }
        let speaker = (mark.process, mark.phase, mark.rank);
        if self.lines.len() >= SPEAKERS && !self.lines.contains_key(&speaker) {
            self.flush(&mut keep);
            self.lines.clear();
        }
        let Some(line) = self.lines.get_mut(&speaker) else {
            self.lines.insert(speaker, Line { kept: mark.tick, number: mark.number, newest: None });
            return keep(mark);
        };
        // A step that falls back is a restart: both sides of it matter.
        let fell_back = line.newest.as_ref().map_or(line.number, |newest| newest.number) > mark.number;
        if fell_back {
            line.newest.take().into_iter().for_each(&mut keep);
        }
        if fell_back || mark.tick.since(line.kept) >= STEP_EVERY {
            line.newest = None;
            line.kept = mark.tick;
            line.number = mark.number;
            keep(mark);
        } else {
            line.newest = Some(mark);
        }
    }

    /// Gives up the newest of every process, so that a commit holds them.
    pub(crate) fn flush(&mut self, mut keep: impl FnMut(Mark)) {
        for line in self.lines.values_mut() {
            if let Some(mark) = line.newest.take() {
                line.kept = mark.tick;
                line.number = mark.number;
                keep(mark);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(tenth: u64, number: f64) -> Mark {
        let tick = Tick(tenth * 100_000_000);
        Mark {
            tick,
            process: None,
            kind: MarkKind::Step,
            phase: MarkPhase::Point,
            number,
            rank: None,
            extra: None,
        }
    }

    fn kept(marks: impl IntoIterator<Item = Mark>) -> Vec<f64> {
        let mut out = Vec::new();
        let mut thin = StepThinner::default();
        for mark in marks {
            thin.push(mark, |mark| out.push(mark.number));
        }
        thin.flush(|mark| out.push(mark.number));
        out
    }

    #[test]
    fn ten_steps_a_second_become_one_with_first_and_newest_kept() {
        let out = kept((0..36).map(|n| step(n, n as f64)));
        assert_eq!(out, [0.0, 10.0, 20.0, 30.0, 35.0]);
    }

    #[test]
    fn slow_steps_are_all_kept() {
        assert_eq!(kept((0..5).map(|n| step(n * 10, n as f64))), [0.0, 1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn both_sides_of_a_restart_are_kept() {
        assert_eq!(
            kept([step(0, 50.0), step(1, 51.0), step(2, 52.0), step(3, 0.0), step(4, 1.0)]),
            [50.0, 52.0, 0.0, 1.0]
        );
    }

    #[test]
    fn the_last_step_of_a_pass_is_kept() {
        let epoch = |tenth| Mark { kind: MarkKind::Epoch, ..step(tenth, -1.0) };
        let marks = (0..17).map(|n| step(n, n as f64)).chain([epoch(17)]);
        assert_eq!(kept(marks.chain((18..20).map(|n| step(n, n as f64)))), [0.0, 10.0, 16.0, -1.0, 19.0]);
    }

    #[test]
    fn evaluations_are_never_thinned() {
        let eval = |tenth| Mark { kind: MarkKind::Eval, ..step(tenth, 1.0) };
        assert_eq!(kept((0..5).map(eval)).len(), 5);
    }

    #[test]
    fn many_speakers_stay_bounded_and_lose_no_newest() {
        let mut thin = StepThinner::default();
        let mut count = 0;
        for pid in 0..1_000 {
            let process = Some(ProcKey { pid, start_ticks: 1 });
            thin.push(Mark { process, ..step(0, 1.0) }, |_| count += 1);
            thin.push(Mark { process, ..step(1, 2.0) }, |_| count += 1);
        }
        thin.flush(|_| count += 1);
        assert_eq!(count, 2_000);
        assert!(thin.lines.len() <= SPEAKERS);
    }
}
