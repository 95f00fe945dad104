//! Curves of others that tell more than one number: what stands beside them decides as it would in a recording.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]

use lowtide_model::{Axis, Bytes, Context, Curve, Metric};
use lowtide_verdict::{Fits, Group, Kind, RunVerdict, Verdict, judge, judge_running};

const GB: f64 = 1e9;

/// A small wave that repeats in no period of the curve.
fn wave(i: usize) -> f64 {
    (i as f64 * 2.399).sin() * 0.01
}

fn curve(n: usize, gb: impl Fn(f64) -> f64) -> Curve {
    let (x, y) = (0..n).map(|i| (i as f64, (gb(i as f64) + wave(i)) * GB)).unzip();
    Curve { axis: Axis::Step, x, y, ..Curve::default() }
}

fn with(mut curve: Curve, name: &str, of: impl Fn(f64) -> f64) -> Curve {
    let values = (0..curve.x.len()).map(|i| of(i as f64)).collect();
    curve.series.insert(name.to_owned(), values);
    curve
}

/// A curve of GPU memory: what tensors hold, and what the allocator took.
fn gpu(allocated: impl Fn(f64) -> f64, reserved: impl Fn(f64) -> f64) -> Curve {
    let curve = Curve { metric: Metric::Gpu, ..curve(200, allocated) };
    with(curve, "reserved", |i| reserved(i) * GB)
}

fn says(verdict: &Verdict, words: &str) -> bool {
    verdict.evidence.iter().any(|line| line.contains(words))
}

#[test]
fn reserved_that_grows_beside_flat_tensors_is_fragmentation() {
    let mut curve = gpu(|_| 8.0, |i| 10.0 + 0.02 * i);
    curve.context.limit = Some(Bytes(24_000_000_000));
    let finished = judge(&curve);
    assert_eq!(finished.outcome.is, Fits::Exceeds, "it goes on: {finished:#?}");
    assert!(finished.forecast.is_some() && finished.settled_at.is_none(), "{finished:#?}");
    for told in [judge(&curve), judge_running(&curve)] {
        assert_eq!((told.verdict, told.group), (Kind::AllocatorKept, Group::Bounded), "{told:#?}");
        assert!(told.headline.starts_with("fragmentation of GPU memory"), "{}", told.headline);
        assert!(told.advice[0].contains("expandable_segments:True"), "{:?}", told.advice);
        let beside = told.outcome.limit_bytes.unwrap();
        assert!((15.9e9..16.1e9).contains(&beside), "the limit is what tensors leave: {beside}");
    }
}

#[test]
fn either_of_the_two_may_be_the_curve() {
    let reserved = Curve { metric: Metric::Gpu, ..curve(200, |i| 10.0 + 0.02 * i) };
    let told = judge(&with(reserved, "allocated", |_| 8.0 * GB));
    assert_eq!(told.verdict, Kind::AllocatorKept, "{told:#?}");
}

#[test]
fn tensors_that_grow_with_what_is_reserved_are_judged_as_tensors() {
    let leak = RunVerdict::of_curve(&gpu(|i| 8.0 + 0.02 * i, |i| 10.0 + 0.02 * i));
    assert_eq!(leak.main.verdict, Kind::Leak, "{:#?}", leak.main);
    assert!(leak.main.headline.starts_with("GPU tensors: leak"), "{}", leak.main.headline);
    assert!(leak.findings.is_empty(), "{:#?}", leak.findings);
    let both = RunVerdict::of_curve(&gpu(|i| 8.0 + 0.02 * i, |i| 10.0 + 0.05 * i));
    assert_eq!(both.main.verdict, Kind::Leak);
    assert!(both.findings[0].headline.starts_with("fragmentation"), "{:#?}", both.findings);
    let flat = judge(&gpu(|_| 8.0, |_| 10.0));
    assert_eq!(flat.group, Group::Flat, "{flat:#?}");
}

#[test]
fn a_few_samples_of_a_difference_that_grows_are_too_early() {
    let mut few = gpu(|_| 8.0, |i| 10.0 + 0.5 * i);
    few.x.truncate(6);
    few.y = vec![8.0 * GB; 6];
    few.series.get_mut("reserved").unwrap().truncate(6);
    let told = judge(&few);
    assert_eq!(told.verdict, Kind::TooEarly, "{told:#?}");
    assert!(told.headline.contains("for no tensor"), "{}", told.headline);
}

#[test]
fn what_is_reserved_on_a_card_says_nothing_of_a_process() {
    let rss = with(curve(200, |_| 4.0), "reserved", |i| (10.0 + 0.05 * i) * GB);
    assert_eq!(judge(&rss).group, Group::Flat);
}

#[test]
fn a_live_heap_that_stays_makes_a_settled_rise_the_allocators() {
    let rise = |i: f64| 2.0 + 3.0 * (1.0 - (-i / 20.0).exp());
    let plain = judge(&curve(300, rise));
    assert_eq!(plain.verdict, Kind::WarmUp, "{plain:#?}");
    let told = judge(&with(curve(300, rise), "heap_used", |_| 0.5 * GB));
    assert_eq!(told.verdict, Kind::AllocatorKept, "{told:#?}");
    assert!(says(&told, "what is live in the heap moved by 0 B"), "{:?}", told.evidence);
    let live = judge(&with(curve(300, rise), "heap_used", |i| (rise(i) - 1.0) * GB));
    assert_eq!(live.verdict, Kind::WarmUp, "{live:#?}");
    assert!(says(&live, "what is live in the heap grew by"), "{:?}", live.evidence);
}

#[test]
fn growth_without_end_beside_a_live_heap_that_stays_is_a_leak_unless_the_heap_itself_keeps_it() {
    let rise = |i: f64| 2.0 + 0.01 * i;
    let native = judge(&with(curve(300, rise), "heap_used", |_| 0.5 * GB));
    assert_eq!(native.verdict, Kind::Leak, "native memory may leak beside any heap: {native:#?}");
    assert!(says(&native, "native memory beside that heap"), "{:?}", native.evidence);
    assert!(native.advice[0].contains("beside the live heap"), "{:?}", native.advice);
    let kept = with(curve(300, rise), "heap_used", |_| 0.5 * GB);
    let kept = judge(&with(kept, "heap_total", |i| (0.6 + 0.01 * i) * GB));
    assert_eq!(kept.verdict, Kind::AllocatorKept, "{kept:#?}");
    assert!(kept.headline.starts_with("fragmentation of the heap"), "{}", kept.headline);
    let flat = with(curve(300, |_| 2.0), "heap_used", |_| 0.5 * GB);
    let flat = judge(&with(flat, "heap_total", |i| (0.6 + 0.01 * i) * GB));
    assert_eq!(flat.group, Group::Flat, "what is not resident costs nothing: {flat:#?}");
}

#[test]
fn the_number_of_tensors_rules_them_in_or_out() {
    let rise = |i: f64| 2.0 + 0.01 * i;
    let of = |name: &str, count: fn(f64) -> f64| judge(&with(curve(300, rise), name, count));
    let flat = of("tensor_count", |_| 6529.0);
    assert!(says(&flat, "it is not tensors that pile up"), "{:?}", flat.evidence);
    let more = of("tensor_count", |i| 6529.0 + 40.0 * i);
    assert!(says(&more, "live tensors became more by"), "{:?}", more.evidence);
    assert!(more.advice[0].contains("who keeps them"), "{:?}", more.advice);
    let objects = of("objects", |_| 1e6);
    assert!(says(&objects, "it is not objects that pile up"), "{:?}", objects.evidence);
    let steady = judge(&with(curve(300, |_| 2.0), "tensor_count", |_| 6529.0));
    assert!(!says(&steady, "pile up"), "{:?}", steady.evidence);
}

#[test]
fn restarts_that_are_told_cut_the_curve_where_they_are() {
    // Each life falls back by less than its own waves: nobody could see the restarts in the curve.
    let life = |i: f64| 5.0 + 0.004 * (i % 60.0) + if i % 7.0 < 1.0 { 0.5 } else { 0.0 };
    let told = |restart_x: Vec<f64>| {
        let restarts = Some(restart_x.len() as f64);
        judge(&Curve { context: Context { restarts, restart_x, ..Context::default() }, ..curve(180, life) })
    };
    let placed = told(vec![60.0, 120.0]);
    assert_eq!(placed.verdict, Kind::Leak, "{placed:#?}");
    assert!(
        says(&placed, "the curve holds 2 restarts; every life climbs until it ends"),
        "{:?}",
        placed.evidence
    );
    assert_ne!(told(vec![]).verdict, Kind::Leak);
    let outside = told(vec![-5.0, f64::NAN, 9e9]);
    assert_ne!(outside.verdict, Kind::Leak, "{outside:#?}");
}

#[test]
fn a_curve_that_is_over_counts_from_its_end_and_one_that_runs_from_now() {
    let mut rise = curve(300, |i| 2.0 + 0.01 * i);
    (rise.axis, rise.context.limit) = (Axis::Seconds, Some(Bytes(6_000_000_000)));
    assert!(judge(&rise).headline.contains("is reached 1.7 min after its end"), "{}", judge(&rise).headline);
    let running = judge_running(&rise);
    assert!(says(&running, "is reached in 1.7 min"), "{:?}", running.evidence);
}

#[test]
fn what_fills_a_limit_is_counted_in_examples() {
    let rise = |i: f64| 2.0 + 0.02 * i.min(100.0);
    let limit = Some(Bytes(8_000_000_000));
    let context = Context { examples: Some(200.0), batch: Some(2.0), limit, ..Context::default() };
    let told = judge(&Curve { context, ..curve(300, rise) });
    assert!(
        told.matters.as_ref().is_some_and(|line| line.contains(" examples fill 7.45 GiB")),
        "{:?}",
        told.matters
    );
}

#[test]
fn side_curves_that_hold_nothing_or_end_early_say_nothing() {
    for name in ["reserved", "allocated", "heap_used", "heap_total", "tensor_count", "anon", "objects"] {
        for values in [vec![], vec![f64::NAN; 200], vec![1e9; 2], vec![-1e300, f64::INFINITY, 5.0]] {
            let mut odd = Curve { metric: Metric::Gpu, ..curve(200, |i| 8.0 + 0.02 * i) };
            odd.series.insert(name.to_owned(), values.clone());
            let told = judge(&odd);
            assert_eq!(told.verdict, Kind::Leak, "{name} {values:?}: {}", told.headline);
            odd.metric = Metric::Rss;
            assert_eq!(judge(&odd).verdict, Kind::Leak, "{name} {values:?}");
        }
    }
}

#[test]
fn swap_beside_a_gpu_is_no_memory_of_the_gpu() {
    let x: Vec<f64> = (0..200).map(f64::from).collect();
    let swap = x.iter().map(|x| x * 20e6).collect();
    let curve = Curve {
        axis: Axis::Step,
        metric: Metric::Gpu,
        y: x.iter().map(|x| 18e9 + 1e6 * (x % 7.0)).collect(),
        series: [("swap".to_owned(), swap)].into_iter().collect(),
        x,
        ..Curve::default()
    };
    assert_eq!(judge(&curve).group, Group::Flat);
    let of_a_process = Curve { metric: Metric::Rss, ..curve };
    assert_eq!(judge(&of_a_process).group, Group::Leak);
}
