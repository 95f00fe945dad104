//! What must hold for every curve, and the form of the JSON.

use lowtide_model::{Axis, Bytes, Context, Curve, Metric};
use lowtide_verdict::{Group, Judge, Kind, Point, Verdict, judge, judge_running, judge_together};
use proptest::prelude::*;

fn curve(x: Vec<f64>, y: Vec<f64>) -> Curve {
    Curve { axis: Axis::Step, x, y, ..Curve::default() }
}

/// A wobble that needs no random numbers.
fn wobble(i: usize) -> f64 {
    // The finisher of MurmurHash3: neighbouring numbers give unrelated values.
    let mut h = i as u32 ^ 0x5bd1_e995;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    f64::from((h ^ (h >> 16)) >> 8) / f64::from(1_u32 << 24) - 0.5
}

/// Curves with a clear answer: 0 line, 1 knee, 2 flat with spikes, 3 saturation, 4 flat then rising, 5 flat.
fn clear(shape: usize, n: usize, noise: f64) -> Vec<f64> {
    let at = |i: usize| {
        let u = i as f64 / n as f64;
        match shape {
            0 => u,
            1 => (u / 0.4).min(1.0),
            2 => f64::from(u8::from(i % 40 >= 36)),
            3 => 1.0 - (-u / 0.1).exp(),
            4 => (u - 0.5).max(0.0),
            _ => 0.0,
        }
    };
    (0..n).map(|i| 1e9 * (5.0 + at(i) + noise * wobble(i))).collect()
}

fn steps(n: usize) -> Vec<f64> {
    (0..n).map(|i| i as f64).collect()
}

fn foreign() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e12..1e12,
        1 => any::<f64>(),
        1 => Just(0.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(1e308),
    ]
}

fn context() -> impl Strategy<Value = Context> {
    let number = || proptest::option::of(foreign());
    (number(), number(), number(), number(), proptest::collection::vec(foreign(), 0..6)).prop_map(
        |(a, b, c, d, v)| Context {
            examples: a,
            batch: b,
            epoch_steps: c,
            restarts: d,
            epochs: b,
            validation_x: v,
            limit: Some(Bytes(1 << 34)),
            ..Context::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 64 } else { 512 }))]

    #[test]
    fn no_input_panics(points in proptest::collection::vec((foreign(), foreign()), 0..80), context in context()) {
        let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
        let mut c = curve(x, y);
        c.context = context;
        for verdict in [judge(&c), judge_running(&c)] {
            prop_assert!((0.0..=1.0).contains(&verdict.confidence));
            prop_assert!(!verdict.headline.is_empty());
            prop_assert!(serde_json::to_string(&verdict).is_ok());
        }
        judge_together(&[c.clone(), c]);
    }

    #[test]
    fn adding_a_constant_or_scaling_changes_no_kind(shape in 0_usize..6, n in 40_usize..400, add in 0.0..1e11_f64, scale in 0.001..1000.0_f64) {
        let y = clear(shape, n, 0.01);
        let kind = judge(&curve(steps(n), y.clone())).verdict;
        let raised = judge(&curve(steps(n), y.iter().map(|v| v + add).collect())).verdict;
        let scaled = judge(&curve(steps(n), y.iter().map(|v| v * scale).collect())).verdict;
        let slower = judge(&curve(steps(n).iter().map(|x| x * scale).collect(), y)).verdict;
        prop_assert_eq!((kind, kind, kind), (raised, scaled, slower));
    }

    #[test]
    fn every_second_sample_says_the_same(shape in prop_oneof![Just(0_usize), Just(1), Just(3), Just(4), Just(5)], n in 120_usize..600) {
        let y = clear(shape, n, 0.01);
        let whole = judge(&curve(steps(n), y.clone())).group;
        let half = judge(&curve(steps(n).into_iter().step_by(2).collect(), y.into_iter().step_by(2).collect())).group;
        prop_assert_eq!(whole, half);
    }

    #[test]
    fn more_of_the_same_slope_never_makes_a_leak_steady(n in 60_usize..300, more in 1_usize..600) {
        let y: Vec<f64> = (0..n + more).map(|i| 1e9 + 1e6 * i as f64 + 3e6 * wobble(i)).collect();
        let early = judge(&curve(steps(n), y[..n].to_vec())).verdict;
        prop_assert_eq!(early, Kind::Leak);
        let late = judge(&curve(steps(n + more), y)).group;
        prop_assert_eq!(late, Group::Leak);
    }
}

#[test]
fn degenerate_curves_are_answered() {
    assert_eq!(judge(&curve(vec![], vec![])).verdict, Kind::TooEarly);
    assert_eq!(judge(&curve(vec![1.0], vec![5e9])).verdict, Kind::TooEarly);
    assert_eq!(judge(&curve(vec![1.0; 50], vec![5e9; 50])).verdict, Kind::Steady);
    let same_x = judge(&curve(vec![1.0; 50], (0..50).map(f64::from).collect()));
    assert!(!same_x.headline.is_empty());
}

#[test]
fn the_order_of_samples_does_not_matter() {
    let y = clear(1, 200, 0.01);
    let forward = judge(&curve(steps(200), y.clone()));
    let backward = judge(&curve(steps(200).into_iter().rev().collect(), y.into_iter().rev().collect()));
    assert_eq!(forward, backward);
}

#[test]
fn a_long_run_keeps_its_answer_in_bounded_memory() {
    let mut judge = Judge::new(Context::default(), Axis::Seconds, Metric::Rss);
    for i in 0..700_000_u32 {
        judge.push(Point::one(f64::from(i), 4e9 + 500.0 * f64::from(i) + 1e6 * wobble(i as usize)));
    }
    assert_eq!(judge.samples(), 700_000);
    assert_eq!(judge.verdict().verdict, Kind::Leak);
}

#[test]
fn two_sizes_of_one_program_prove_a_fill() {
    let run = |examples: f64| {
        let pass = examples / 8.0;
        let y = (0..200).map(|i| 4e9 + 160e6 * f64::from(i).min(pass) + 20e6 * wobble(i as usize)).collect();
        let mut c = curve(steps(200), y);
        c.context =
            Context { examples: Some(examples), batch: Some(2.0), accum: Some(4.0), ..Context::default() };
        c
    };
    let both = judge_together(&[run(300.0), run(663.0)]);
    assert!(both.proves_fill, "{both:#?}");
    assert!((18e6..=22e6).contains(&both.bytes_per_example.unwrap()));
    let alike = judge_together(&[run(300.0), run(300.0)]);
    assert!(!alike.proves_fill);
}

/// The schema's own words are checked: required fields, no others, and the kinds.
#[test]
fn the_json_has_the_documented_form() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../docs/verdict.schema.json")).unwrap();
    let names = |v: &serde_json::Value| -> Vec<String> { v.as_object().unwrap().keys().cloned().collect() };
    for shape in 0..6 {
        let mut c = curve(steps(200), clear(shape, 200, 0.01));
        c.context.limit = Some(Bytes(8_000_000_000));
        let verdict = judge(&c);
        let json = serde_json::to_value(&verdict).unwrap();
        // The reasoning is there only where it was asked for (`explain --why`).
        let always: Vec<String> =
            names(&schema["properties"]).into_iter().filter(|name| name != "why").collect();
        assert_eq!(names(&json), always);
        for part in ["floor", "outcome"] {
            assert_eq!(names(&json[part]), names(&schema["properties"][part]["properties"]));
        }
        let kinds = schema["$defs"]["kind"]["enum"].as_array().unwrap();
        assert!(kinds.contains(&json["verdict"]));
        let back: Verdict = serde_json::from_value(json).unwrap();
        assert_eq!(back.headline, verdict.headline);
    }
}

#[test]
fn every_kind_has_its_word_in_the_schema() {
    let schema = include_str!("../../../docs/verdict.schema.json");
    for kind in Kind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap().as_str().unwrap(), kind.word());
        assert!(schema.contains(&format!("\"{}\"", kind.word())));
    }
}

#[test]
fn a_handful_of_samples_is_never_a_leak() {
    for n in 1..10 {
        let rise = judge(&curve(steps(n), (0..n).map(|i| 1e9 + 1e8 * i as f64).collect()));
        assert_eq!(rise.verdict, Kind::TooEarly, "{n} samples: {}", rise.headline);
        assert!(!rise.disprove.is_empty(), "says what to wait for");
    }
}
