//! Gathers what a job says of itself: its step, its passes, its evaluations and saves, and the facts it states.
//!
//! Marks give the curve its right axis and the engine its context, so that nobody has to type numbers.

use crate::budget::pass_steps;
use lowtide_model::{Context, Mark, MarkKind, MarkPhase};
use std::collections::BTreeSet;

/// Events kept; when there are more, every second one is dropped.
const MOST_EVENTS: usize = 2048;

/// Names under which jobs tell the shape of an input.
const SHAPES: [&str; 4] = ["shape", "input_shape", "seq_len", "sequence_length"];
/// Different shapes that are told apart.
const MOST_SHAPES: usize = 4096;

/// A shorter pass, in seconds, is over before memory was sampled twice at the usual second: it tells nothing of a curve.
const SHORTEST_PASS: f64 = 2.0;

/// Steps may be so many times quicker than they were on the mean.
const FASTER: f64 = 4.0;

/// Two lengths of a pass differ from this part on: less is a last batch that is dropped or filled up.
const DIFFERS: f64 = 0.05;

/// What the marks so far say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) context: Context,
    /// Newest step and when it was told.
    pub(crate) step: Option<f64>,
    step_first: Option<(f64, f64)>,
    step_last: Option<(f64, f64)>,
    /// Where passes began and ended, in steps and seconds.
    edges: Vec<(MarkPhase, f64, f64)>,
    /// The seconds of evaluations and saves, ...
    evals: Vec<f64>,
    saves: Vec<f64>,
    /// ... of where something was logged, a shard of the data was opened, a rollout was made.
    logs: Vec<f64>,
    shards: Vec<f64>,
    rollouts: Vec<f64>,
    pub(crate) steps: Steps,
    shapes: BTreeSet<String>,
    /// The largest decoded example, where the job tells it.
    pub(crate) largest_example: Option<f64>,
    /// Whether the job is inside an evaluation now.
    pub(crate) in_eval: bool,
    /// ... or writes a checkpoint.
    in_save: bool,
    /// When the newest of both began.
    busy_since: Option<f64>,
    /// When the last evaluation and the last save ended.
    eval_ended: Option<f64>,
    save_ended: Option<f64>,
    pub(crate) count: usize,
    /// The lowest rank that spoke: all ranks do the same work, and its steps are the axis.
    lead: Option<u32>,
}

impl Marks {
    /// Tells a curve where things happened, in its own x: `places` makes that of seconds.
    pub(crate) fn place_in(&self, context: &mut Context, places: impl Fn(&[f64]) -> Vec<f64>) {
        context.validation_x = places(&self.evals);
        context.save_x = places(&self.saves);
        context.log_x = places(&self.logs);
        context.shard_x = places(&self.shards);
        context.rollout_x = places(&self.rollouts);
    }

    /// The steps made by these seconds. Steps are not all written down, so only now is it known what lay between two of them.
    pub(crate) fn steps_at(&self, seconds: &[f64]) -> Vec<f64> {
        let after = |second: f64| self.step_last.filter(|last| last.1 <= second).map(|last| last.0);
        seconds.iter().filter_map(|second| after(*second).or_else(|| self.step_at(*second))).collect()
    }
}

/// Takes a place; of too many every second one goes.
fn keep(places: &mut Vec<f64>, place: f64) {
    if places.len() >= MOST_EVENTS {
        *places = places.iter().copied().step_by(2).collect();
    }
    places.push(place);
}

/// Steps that were told, and when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    numbers: Vec<f64>,
    pub(crate) seconds: Vec<f64>,
}

impl Marks {
    pub(crate) fn push(&mut self, mark: &Mark) {
        self.count += 1;
        if !self.leads(mark.rank) {
            return;
        }
        let seconds = mark.tick.seconds();
        let custom = mark.kind == MarkKind::Custom && mark.phase != MarkPhase::End;
        self.read_facts(mark.extra.as_deref(), seconds, custom);
        if matches!(mark.kind, MarkKind::Eval | MarkKind::Save) {
            self.step_beside(mark.number, seconds);
        }
        match mark.kind {
            MarkKind::Step if mark.number.is_finite() => self.push_step(mark.number, seconds),
            MarkKind::Epoch => self.push_epoch(mark, seconds),
            MarkKind::Eval => {
                self.in_eval = mark.phase == MarkPhase::Start;
                self.eval_ended = Some(seconds);
                if mark.phase != MarkPhase::End {
                    self.busy_since = Some(seconds);
                    keep(&mut self.evals, seconds);
                }
            }
            MarkKind::Save => {
                self.in_save = mark.phase == MarkPhase::Start;
                self.save_ended = Some(seconds);
                if mark.phase != MarkPhase::End {
                    self.busy_since = Some(seconds);
                    keep(&mut self.saves, seconds);
                }
            }
            MarkKind::Step | MarkKind::Load | MarkKind::Info | MarkKind::Custom => {}
        }
    }

    /// Whether a mark of this rank counts. What a higher rank said before a lower one spoke is forgotten.
    fn leads(&mut self, rank: Option<u32>) -> bool {
        let Some(rank) = rank else { return true };
        match self.lead {
            Some(lead) if rank > lead => return false,
            Some(lead) if rank == lead => {}
            Some(_) => *self = Self { count: self.count, lead: Some(rank), ..Self::default() },
            None => self.lead = Some(rank),
        }
        true
    }

    fn push_step(&mut self, step: f64, seconds: f64) {
        if self.step.is_none_or(|s| step > s) {
            self.step = Some(step);
            self.step_first.get_or_insert((step, seconds));
            self.step_last = Some((step, seconds));
            keep(&mut self.steps.numbers, step);
            keep(&mut self.steps.seconds, seconds);
        }
    }

    /// Steps are not all written down: an evaluation and a save tell the step they come after. What the pace so far has no room for
    /// is a number of something else.
    fn step_beside(&mut self, step: f64, seconds: f64) {
        let Some((last, told)) = self.step_last else { return };
        let room = self.pace().filter(|pace| *pace > 0.0).map_or(0.0, |pace| (seconds - told) / pace);
        if step <= last + 1.0 + FASTER * room {
            self.push_step(step, seconds);
        }
    }

    /// Steps are not all written down: where the mark itself says after which one it came, that counts.
    fn push_epoch(&mut self, mark: &Mark, seconds: f64) {
        let told = facts_of(mark.extra.as_deref()).and_then(|facts| facts.get("step")?.as_f64());
        let step = told.filter(|step| step.is_finite()).or(self.step).unwrap_or(0.0);
        if self.edges.len() < MOST_EVENTS {
            self.edges.push((mark.phase, step, seconds));
        }
    }

    /// The newest step and the second it was told.
    pub(crate) fn newest_step(&self) -> Option<(f64, f64)> {
        self.step_last
    }

    /// The second of the first step that was told, or the start.
    pub(crate) fn began(&self) -> f64 {
        self.step_first.map_or(0.0, |(_, second)| second)
    }

    /// How many steps were made by this second; `None` before the first one that was told, and after the last.
    pub(crate) fn step_at(&self, second: f64) -> Option<f64> {
        let after = self.steps.seconds.partition_point(|told| *told < second);
        let (next, before) = (*self.steps.numbers.get(after)?, after.checked_sub(1));
        let Some(before) = before else { return (self.steps.seconds[after] <= second).then_some(next) };
        let (s0, t0) = (*self.steps.numbers.get(before)?, *self.steps.seconds.get(before)?);
        let t1 = *self.steps.seconds.get(after)?;
        Some(if t1 > t0 { ((second - t0) / (t1 - t0)).mul_add(next - s0, s0) } else { next })
    }

    /// Whether the job evaluates or saves now.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_eval || self.in_save
    }

    /// Whether the job neither evaluated nor saved at some time after this second.
    pub(crate) fn idle_since(&self, second: f64) -> bool {
        !self.is_busy() || self.busy_since.is_some_and(|since| since > second)
    }

    /// Steps made since the first one that was told.
    pub(crate) fn steps_made(&self) -> f64 {
        self.step_first.zip(self.step_last).map_or(0.0, |((first, _), (last, _))| last - first)
    }

    /// How many different input shapes were told.
    pub(crate) fn shapes(&self) -> usize {
        self.shapes.len()
    }

    /// Whether the job evaluated at any time after this second.
    pub(crate) fn evaluated_since(&self, second: f64) -> bool {
        self.in_eval || self.eval_ended.is_some_and(|ended| ended > second)
    }

    /// Whether it wrote a checkpoint.
    pub(crate) fn saved_since(&self, second: f64) -> bool {
        self.in_save || self.save_ended.is_some_and(|ended| ended > second)
    }

    /// Seconds one step takes.
    pub(crate) fn pace(&self) -> Option<f64> {
        let ((s0, t0), (s1, t1)) = self.step_first.zip(self.step_last)?;
        (s1 > s0).then(|| (t1 - t0) / (s1 - s0))
    }

    /// Steps and seconds of one pass, from two marks of the same phase, or from the end of the first.
    fn pass(&self) -> Option<(f64, f64)> {
        let same = self.edges.iter().rev().find_map(|late| {
            let early = self.edges.iter().rev().find(|e| e.0 == late.0 && e.2 < late.2)?;
            Some((late.1 - early.1, late.2 - early.2))
        });
        let first_end = || {
            let (_, steps, seconds) = *self.edges.iter().find(|e| e.0 == MarkPhase::End)?;
            let (first_step, began) = self.step_first?;
            Some((steps - first_step + 1.0, seconds - began))
        };
        same.or_else(first_end).filter(|p| p.0 > 0.0 && p.1 >= SHORTEST_PASS)
    }

    /// Steps of a pass where the division does not tell them: told plainly, or by where passes began and ended. Steps
    /// between two that were written down can't be told apart: within that, the division is the exact one.
    fn pass_steps(&self) -> Option<f64> {
        let divided = pass_steps(&Context { epoch_steps: None, ..self.context.clone() });
        let apart = self.steps.numbers.windows(2).map(|pair| pair[1] - pair[0]).fold(1.0, f64::max);
        let agrees = |measured: f64| divided.is_some_and(|divided| (divided - measured).abs() <= apart);
        self.context.epoch_steps.or(self.pass().map(|pass| pass.0).filter(|steps| !agrees(*steps)))
    }

    /// Steps of a pass by what the user said, and by the marks, where the two differ.
    pub(crate) fn contradicted(&self, asked: &Context) -> Option<(f64, f64)> {
        let (said, told) = (pass_steps(&self.known(asked))?, pass_steps(&self.known(&Context::default()))?);
        (says_pass(asked) && (said - told).abs() > (DIFFERS * told).max(1.0)).then_some((said, told))
    }

    /// What is known of the run by now; what the user said wins over what marks say, in whatever words they say it.
    pub(crate) fn known(&self, asked: &Context) -> Context {
        let mut c = asked.clone();
        let m = &self.context;
        c.examples = c.examples.or(m.examples);
        c.batch = c.batch.or(m.batch);
        c.accum = c.accum.or(m.accum);
        c.world_size = c.world_size.or(m.world_size);
        c.epochs = c.epochs.or(m.epochs);
        let divides = says_pass(asked) && pass_steps(&c).is_some();
        let measured = self.pass().filter(|_| !divides);
        if !divides {
            c.epoch_steps = self.pass_steps();
        }
        c.epoch_seconds = c.epoch_seconds.or(measured.map(|p| p.1)).or_else(|| {
            let steps = pass_steps(&c)?;
            Some(steps * self.pace()?)
        });
        c
    }

    /// Facts in the JSON of a mark; unknown keys and broken JSON are passed over.
    fn read_facts(&mut self, extra: Option<&str>, seconds: f64, custom: bool) {
        let Some(facts) = facts_of(extra) else { return };
        let fact = |key: &str| {
            facts.get(key).and_then(serde_json::Value::as_f64).filter(|v| v.is_finite() && *v > 0.0)
        };
        let name = facts.get("name").and_then(serde_json::Value::as_str);
        for (period, places) in
            [("log", &mut self.logs), ("shard", &mut self.shards), ("rollout", &mut self.rollouts)]
        {
            if facts.get(period).is_some() || (custom && name == Some(period)) {
                keep(places, seconds);
            }
        }
        let shape = SHAPES.iter().find_map(|name| facts.get(name));
        self.shapes.extend(shape.filter(|_| self.shapes.len() < MOST_SHAPES).map(ToString::to_string));
        let c = &mut self.context;
        c.examples = fact("examples").or(c.examples);
        c.batch = fact("batch").or(c.batch);
        c.accum = fact("accum").or(c.accum);
        c.world_size = fact("world_size").or(c.world_size);
        c.epochs = fact("epochs").or(c.epochs);
        c.epoch_steps = fact("epoch_steps").or(c.epoch_steps);
        self.largest_example = fact("largest_example_bytes").or(self.largest_example);
    }
}

/// Whether the user said how long a pass is, plainly or in parts.
fn says_pass(asked: &Context) -> bool {
    [asked.epoch_steps, asked.examples, asked.batch, asked.accum].iter().any(Option::is_some)
}

/// The JSON of a mark, if it is some.
fn facts_of(extra: Option<&str>) -> Option<serde_json::Value> {
    extra.and_then(|text| serde_json::from_str(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::Tick;

    fn mark(seconds: f64, kind: MarkKind, phase: MarkPhase, number: f64, rank: Option<u32>) -> Mark {
        Mark { tick: Tick::from_seconds(seconds), process: None, kind, phase, number, rank, extra: None }
    }

    #[test]
    fn with_two_ranks_the_lowest_drives_the_axis_also_when_it_speaks_second() {
        let mut marks = Marks::default();
        for epoch in 0..3_u32 {
            let began = f64::from(epoch) * 10.0;
            for (late, rank) in [(0.0, 1), (0.2, 0)] {
                let tick = began + late;
                marks.push(&mark(tick, MarkKind::Epoch, MarkPhase::Start, f64::from(epoch), Some(rank)));
                marks.push(&mark(tick + 0.1, MarkKind::Eval, MarkPhase::Point, 0.0, Some(rank)));
                let step = f64::from(epoch * 8 + 8 + rank);
                marks.push(&mark(tick + 9.0, MarkKind::Step, MarkPhase::Point, step, Some(rank)));
            }
        }
        assert_eq!(marks.step, Some(24.0));
        assert_eq!(marks.evals.len(), 3, "not once for each rank");
        let known = marks.known(&Context::default());
        assert!((known.epoch_seconds.unwrap() - 10.0).abs() < 1e-9, "{known:?}");
        assert!((known.epoch_steps.unwrap() - 8.0).abs() < 1e-9, "{known:?}");
    }

    /// Ten steps a second of which one a second is written down, passes of 8 seconds; told by `facts`.
    fn thinned(facts: &str, epoch_facts: impl Fn(u32) -> Option<String>) -> Marks {
        let mut marks = Marks::default();
        let info = mark(0.0, MarkKind::Info, MarkPhase::Point, 0.0, None);
        marks.push(&Mark { extra: Some(facts.to_owned()), ..info });
        for second in 0..30_u32 {
            let step = f64::from(second * 10 + 7);
            marks.push(&mark(f64::from(second) + 0.7, MarkKind::Step, MarkPhase::Point, step, None));
            if second % 8 == 7 {
                let end = mark(f64::from(second) + 1.0, MarkKind::Epoch, MarkPhase::End, 0.0, None);
                marks.push(&Mark { extra: epoch_facts(second * 10 + 10), ..end });
            }
        }
        marks
    }

    #[test]
    fn a_pass_is_as_long_as_its_marks_say_also_where_steps_are_thinned() {
        let marks = thinned("{}", |step| Some(format!("{{\"step\":{step}}}")));
        assert_eq!(marks.known(&Context::default()).epoch_steps, Some(80.0));
        let marks = thinned("{\"examples\":332,\"batch\":4}", |_| None);
        let known = marks.known(&Context::default());
        assert_eq!(known.epoch_steps, None, "the division is nearer than ten steps can tell");
        assert_eq!(pass_steps(&known), Some(83.0));
        let marks = thinned("{\"examples\":640,\"batch\":4}", |_| None);
        let known = marks.known(&Context::default());
        assert_eq!(pass_steps(&known), Some(80.0), "what happened wins over a batch that was told wrong");
    }

    #[test]
    fn an_evaluation_has_its_place_between_the_steps_that_are_written_down() {
        let mut marks = thinned("{}", |_| None);
        assert_eq!(marks.step, Some(297.0));
        let eval = |phase, number| mark(30.3, MarkKind::Eval, phase, number, None);
        marks.push(&eval(MarkPhase::Start, 303.0));
        marks.push(&eval(MarkPhase::End, 303.0));
        assert_eq!(marks.steps_at(&marks.evals), [303.0]);
        marks.push(&mark(31.0, MarkKind::Save, MarkPhase::Start, 9000.0, None));
        assert_eq!(
            (marks.step, marks.steps_at(&marks.saves)),
            (Some(303.0), vec![303.0]),
            "no step of this job"
        );
        marks.push(&mark(31.0, MarkKind::Save, MarkPhase::Start, f64::NAN, None));
        marks.push(&mark(31.0, MarkKind::Eval, MarkPhase::Start, 2.0, None));
        assert_eq!(marks.steps_at(&[0.1, 5.2, 30.3, 40.0]), [52.0, 303.0, 303.0]);
    }

    #[test]
    fn what_the_user_says_of_a_pass_wins_and_a_contradiction_is_known() {
        let marks = thinned("{\"examples\":320,\"batch\":4}", |_| None);
        let asked = |examples: f64| Context { examples: Some(examples), ..Context::default() };
        assert_eq!(pass_steps(&marks.known(&asked(500.0))), Some(125.0));
        assert_eq!(marks.contradicted(&asked(500.0)), Some((125.0, 80.0)));
        assert_eq!(marks.contradicted(&asked(322.0)), None);
        assert_eq!(marks.contradicted(&Context::default()), None);
    }

    #[test]
    fn facts_of_an_evaluation_loader_do_not_replace_those_of_training() {
        let mut marks = Marks::default();
        for facts in ["{\"examples\":663,\"batch\":2}", "{\"eval_examples\":50,\"eval_batch\":8}"] {
            let info = mark(0.0, MarkKind::Info, MarkPhase::Point, 0.0, Some(0));
            marks.push(&Mark { extra: Some(facts.to_owned()), ..info });
        }
        assert_eq!((marks.context.examples, marks.context.batch), (Some(663.0), Some(2.0)));
    }
}
