//! Reads back the series that lowtide itself sent to a metrics engine: need and step of a run, with its limit and facts.

use super::Attempt;
use lowtide_model::{Axis, Bytes, Context, Curve, Metric};
use serde_json::Value;
use std::collections::BTreeMap;

/// Different steps before a curve stands over steps.
const FEWEST_STEPS: usize = 10;

type Points = Vec<(f64, f64)>;

/// What is known of one run.
#[derive(Default)]
struct Run {
    /// By role: the largest process of each, and all together.
    need: BTreeMap<String, Points>,
    /// The highest since the sample before.
    peaks: BTreeMap<String, Points>,
    /// Whose need the verdict was about, and when that was told.
    judged: Option<(f64, String)>,
    steps: Points,
    limit: Option<f64>,
    context: Context,
    /// Whether the run is over.
    ended: bool,
}

impl Run {
    /// The newest word holds.
    fn judge(&mut self, when: Option<f64>, role: &str) {
        let newer = |when: &f64| self.judged.as_ref().is_none_or(|(known, _)| when >= known);
        if let Some(when) = when.filter(newer) {
            self.judged = Some((when, role.to_owned()));
        }
    }

    /// The levels that were judged, with their peaks: of the role that was told, else of the trainer, else of the first.
    fn levels(&mut self) -> (Points, Points) {
        let told = self.judged.as_ref().map(|(_, role)| role.as_str());
        let wanted = [told, Some("trainer"), self.need.keys().next().map(String::as_str)];
        let role = wanted.into_iter().flatten().find(|role| self.need.contains_key(*role));
        let Some(role) = role.map(str::to_owned) else { return Default::default() };
        let take = |from: &mut BTreeMap<String, Points>| from.remove(&role).unwrap_or_default();
        (take(&mut self.need), take(&mut self.peaks))
    }
}

/// Whether an answer holds such series.
pub(super) fn is_ours(series: &[Value]) -> bool {
    series.iter().any(|one| label(one, "__name__") == "lowtide_need_bytes")
}

fn label<'a>(series: &'a Value, name: &str) -> &'a str {
    series.get("metric").and_then(|labels| labels.get(name)).and_then(Value::as_str).unwrap_or("")
}

/// One curve a run and rank.
pub(super) fn read(series: &[Value]) -> Attempt {
    let mut runs: BTreeMap<String, Run> = BTreeMap::new();
    for one in series {
        let parts = ["run", "node", "rank"].map(|name| label(one, name)).join(" ");
        let run = runs.entry(parts.trim().to_owned()).or_default();
        let points = points(one);
        let last = points.last().map(|point| point.1);
        match label(one, "__name__") {
            "lowtide_need_bytes" => run.need.entry(label(one, "role").to_owned()).or_default().extend(points),
            "lowtide_need_peak_bytes" => {
                run.peaks.entry(label(one, "role").to_owned()).or_default().extend(points);
            }
            "lowtide_judged_role" => {
                let held = points.iter().rev().find(|point| point.1 > 0.0);
                run.judge(held.map(|point| point.0), label(one, "role"));
            }
            "lowtide_step" => run.steps.extend(points),
            "lowtide_limit_bytes" => run.limit = last.or(run.limit),
            "lowtide_run_context" if label(one, "fact") == "ended" => run.ended = true,
            "lowtide_run_context" => learn(&mut run.context, label(one, "fact"), last),
            _ => {}
        }
    }
    let curves: Vec<Curve> = runs
        .into_iter()
        .filter(|(_, run)| !run.need.is_empty())
        .map(|(name, run)| curve(name, run))
        .collect();
    if curves.is_empty() { Err("no `lowtide_need_bytes`".into()) } else { Ok(curves) }
}

fn points(series: &Value) -> Points {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let pair = |value: &Value| Some((number(value.get(0)?)?, number(value.get(1)?)?));
    series.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(pair).collect()
}

fn learn(context: &mut Context, fact: &str, value: Option<f64>) {
    let place = match fact {
        "examples" => &mut context.examples,
        "batch" => &mut context.batch,
        "accum" => &mut context.accum,
        "world_size" => &mut context.world_size,
        "epochs" => &mut context.epochs,
        "epoch_steps" => &mut context.epoch_steps,
        _ => return,
    };
    *place = value.filter(|value| value.is_finite() && *value > 0.0).or(*place);
}

fn curve(name: String, mut run: Run) -> Curve {
    let (mut need, mut levels) = run.levels();
    need.sort_by(|a, b| a.0.total_cmp(&b.0));
    if run.ended {
        cut_ending(&mut need);
        let end = need.last().map_or(f64::INFINITY, |last| last.0);
        levels.retain(|peak| peak.0 <= end);
    }
    run.steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let start = need.first().map_or(0.0, |first| first.0);
    // A peak comes before the level it fell back to.
    levels.append(&mut need);
    levels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut different: Vec<f64> = run.steps.iter().map(|step| step.1).collect();
    different.dedup();
    let axis = if different.len() >= FEWEST_STEPS { Axis::Step } else { Axis::Seconds };
    let step =
        |time: f64| run.steps.get(run.steps.partition_point(|s| s.0 <= time).checked_sub(1)?).map(|s| s.1);
    let place = |time: f64| if axis == Axis::Step { step(time) } else { Some(time - start) };
    let placed = levels.iter().filter_map(|(time, bytes)| Some((place(*time)?, *bytes)));
    let (x, y) = placed.unzip();
    run.context.limit = run.limit.filter(|limit| *limit > 0.0).map(Bytes::from_f64);
    run.context.limit_from = run.context.limit.map(|_| "the run".to_owned());
    let notes = vec!["read back from series that lowtide sent".to_owned()];
    Curve { name, axis, x, y, metric: Metric::Anon, context: run.context, notes, ..Curve::default() }
}

/// Samples at the very end that may be a program's clean-up, and those before them that it is held against.
const ENDING: (usize, usize) = (3, 10);
/// A clean-up falls below this part of all that stands before it.
const FALLS_BELOW: f64 = 0.9;

/// Without what a program gave back on its way out, as a recording of it is judged: that says nothing of its life.
fn cut_ending(need: &mut Points) {
    let before = need.len().saturating_sub(ENDING.0);
    let stretch = &need[before.saturating_sub(ENDING.1)..before];
    let lowest = stretch.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let falls = need[before..].iter().rev().take_while(|point| point.1 < FALLS_BELOW * lowest).count();
    if stretch.len() == ENDING.1 {
        need.truncate(need.len() - falls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn need_step_limit_and_facts_make_one_curve_over_steps() {
        let series = |name: &str, values: Vec<(f64, f64)>| {
            let values: Vec<Value> = values.iter().map(|(t, v)| json!([t, v.to_string()])).collect();
            json!({ "metric": { "__name__": name, "run": "r" }, "values": values })
        };
        let times = || (0..20).map(f64::from);
        let facts = json!({ "metric": { "__name__": "lowtide_run_context", "run": "r", "fact": "examples" }, "values": [[9, "663"]] });
        let all = vec![
            series("lowtide_need_bytes", times().map(|t| (1000.0 + t, 1e9 + t)).collect()),
            series("lowtide_need_peak_bytes", vec![(1005.0, 5e9)]),
            series("lowtide_step", times().map(|t| (1000.0 + t, 10.0 * t)).collect()),
            series("lowtide_limit_bytes", vec![(1019.0, 3e10)]),
            facts,
        ];
        assert!(is_ours(&all));
        let [curve] = &read(&all).unwrap()[..] else { panic!("one curve") };
        assert_eq!((curve.axis, curve.x.len()), (Axis::Step, 21));
        assert_eq!(curve.y.iter().filter(|y| **y > 4e9).count(), 1, "the peak is in it");
        assert_eq!(curve.context.limit, Some(Bytes(30_000_000_000)));
        assert_eq!(curve.context.examples, Some(663.0));
    }

    #[test]
    fn what_a_program_gave_back_on_its_way_out_is_left_out() {
        let mut need: Points = (0..30).map(|n| (f64::from(n), 1e9 + f64::from(n))).collect();
        need.extend([(30.0, 6e8), (31.0, 2e8)]);
        cut_ending(&mut need);
        assert_eq!(need.last(), Some(&(29.0, 1e9 + 29.0)));
        let whole = need.clone();
        cut_ending(&mut need);
        assert_eq!(need, whole, "nothing falls, nothing is cut");
    }

    #[test]
    fn of_several_roles_the_one_that_was_judged_is_read() {
        let series = |name: &str, role: &str, value: f64| json!({ "metric": { "__name__": name, "run": "r", "role": role }, "values": [[1000, value], [1001, value]] });
        let mut all = vec![
            series("lowtide_need_bytes", "all", 7e9),
            series("lowtide_need_bytes", "loader_worker", 2e9),
            series("lowtide_need_bytes", "trainer", 5e9),
        ];
        let level = |all: &[Value]| read(all).unwrap()[0].y[0] as u64;
        assert_eq!(level(&all), 5_000_000_000, "nothing told: the trainer");
        all.push(series("lowtide_judged_role", "loader_worker", 1.0));
        assert_eq!(level(&all), 2_000_000_000);
    }

    proptest! {
        #[test]
        fn no_answer_panics(name in "lowtide_(need|step|limit|need_peak)_bytes", value in ".{0,12}", time: f64) {
            let all = [json!({ "metric": { "__name__": name }, "values": [[time, value], [null], 3] }), json!(null)];
            let _ = (is_ours(&all), read(&all).is_ok());
        }
    }
}
