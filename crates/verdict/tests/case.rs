//! The case that started lowtide, judged from the numbers its documents hold.

use lowtide_model::{Axis, Bytes, Context, Curve, Metric};
use lowtide_verdict::{Fits, Group, Kind, judge};

const RUN_2: [f64; 24] = [
    5434.0, 7017.0, 8721.0, 10375.0, 12000.0, 13757.0, 15559.0, 17412.0, 17658.0, 17693.0, 17694.0, 17694.0,
    17437.0, 17437.0, 17437.0, 17378.0, 17378.0, 17229.0, 17229.0, 17051.0, 17052.0, 17041.0, 17033.0,
    17032.0,
];
const RUN_1: [f64; 7] = [5552.0, 7159.0, 8851.0, 10515.0, 12227.0, 13919.0, 15736.0];

fn by_tens(mb: &[f64], context: Context) -> Curve {
    Curve {
        name: "run".into(),
        axis: Axis::Step,
        x: (1..=mb.len()).map(|i| 10.0 * i as f64).collect(),
        y: mb.iter().map(|mb| mb * 1e6).collect(),
        metric: Metric::Rss,
        context,
        ..Curve::default()
    }
}

fn numbers(examples: f64) -> Context {
    Context {
        examples: Some(examples),
        batch: Some(2.0),
        accum: Some(4.0),
        limit: Some(Bytes(32_000_000_000)),
        limit_from: Some("--limit".into()),
        ..Context::default()
    }
}

#[test]
fn run_two_is_a_cache_fill_that_fits_and_ends_with_the_first_epoch() {
    let mut curve = by_tens(&RUN_2, numbers(663.0));
    let tensors = (1..=24).map(|i| if i <= 8 { 6529.0 } else { 7070.0 }).collect();
    curve.series.insert("tensor_count".into(), tensors);
    let verdict = judge(&curve);
    assert_eq!(verdict.verdict, Kind::CacheFill, "{verdict:#?}");
    assert_eq!(verdict.outcome.is, Fits::Fits);
    let settled = verdict.settled_at.unwrap().step.unwrap();
    assert!((settled - 82.5).abs() < 0.5, "settled at {settled}");
    assert!((165e6..=175e6).contains(&verdict.floor.bytes_per_step), "{:?}", verdict.floor);
    let each = verdict.bytes_per_example.unwrap();
    assert!((20e6..=22e6).contains(&each), "{each}");
    let fill = verdict.fill.unwrap();
    assert!((43e9..=48e9).contains(&fill.needs(2000.0)), "{}", fill.needs(2000.0));
    assert!((1300.0..=1400.0).contains(&fill.fits(32e9)), "{}", fill.fits(32e9));
    for kind in [Kind::Leak, Kind::WarmUp] {
        assert!(verdict.ruled_out.iter().any(|r| r.kind == kind && !r.because.is_empty()));
    }
    assert!(
        verdict.evidence.iter().any(|l| l.contains("changed once") && l.contains("step 80 and step 90")),
        "{verdict:#?}"
    );
}

#[test]
fn wrong_numbers_change_neither_the_group_nor_the_knee_and_are_called_out() {
    for examples in [500.0, 900.0] {
        let verdict = judge(&by_tens(&RUN_2, numbers(examples)));
        assert_eq!(verdict.group, Group::Bounded, "{examples}");
        let settled = verdict.settled_at.unwrap().step.unwrap();
        assert!((settled - 82.5).abs() < 0.5, "settled at {settled}");
        assert!(verdict.evidence.iter().any(|l| l.contains("don't match")), "{:?}", verdict.evidence);
    }
}

#[test]
fn without_the_numbers_run_two_is_bounded_and_the_data_set_size_is_asked_for() {
    let verdict = judge(&by_tens(&RUN_2, Context::default()));
    assert_eq!(verdict.group, Group::Bounded);
    assert!(verdict.advice.iter().any(|l| l.contains("--examples")), "{:?}", verdict.advice);
}

#[test]
fn run_one_is_too_early_and_decided_at_step_83_with_both_futures() {
    let verdict = judge(&by_tens(&RUN_1, numbers(663.0)));
    assert_eq!(verdict.verdict, Kind::TooEarly);
    assert_eq!(verdict.decided_at_step, Some(83.0));
    for kind in [Kind::Leak, Kind::CacheFill] {
        let future = verdict.explanations.iter().find(|e| e.kind == kind).unwrap();
        assert!(future.predicts.chars().any(|c| c.is_ascii_digit()), "{future:?}");
    }
    let forecast = verdict.forecast.unwrap();
    assert!((160.0..=175.0).contains(&forecast.at_step.unwrap()), "{forecast:?}");
}

#[test]
fn two_points_in_three_minutes_are_too_early() {
    let curve = Curve {
        axis: Axis::Seconds,
        x: vec![0.0, 174.0],
        y: vec![1254e6, 6625e6],
        context: numbers(663.0),
        ..Curve::default()
    };
    assert_eq!(judge(&curve).verdict, Kind::TooEarly);
}

#[test]
fn a_validation_spike_is_never_a_leak() {
    let curve = Curve {
        axis: Axis::Seconds,
        x: vec![0.0, 5.0, 10.0],
        y: vec![6.2e9, 10.4e9, 4.8e9],
        ..Curve::default()
    };
    assert!(matches!(judge(&curve).verdict, Kind::TooEarly | Kind::Spikes));
}

#[test]
fn the_run_with_a_hundred_examples_settled_within_its_first_samples() {
    let y = [1612.9, 4952.0, 5238.0, 5257.5, 5233.2, 5230.2];
    let mut curve = by_tens(&y, numbers(100.0));
    curve.x = (0..6).map(|i| 10.0 * f64::from(i)).collect();
    let verdict = judge(&curve);
    assert_eq!(verdict.verdict, Kind::CacheFill, "{verdict:#?}");
}
