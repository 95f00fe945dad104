//! Which of the sizes of a foreign file is what: cgroups' files, totals that are sums, and that no column that may leak is
//! passed over in silence.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]
#![allow(clippy::float_cmp, reason = "numbers that were written are read, not computed")]

mod text;

use lowtide_model::{Bytes, Curve, Metric};
use std::fmt::Write;
use text::{of_text, only};

/// A heading, and sixty rows as `row` writes them.
fn rows(heading: &str, row: impl Fn(u64) -> String) -> String {
    (0..60).fold(heading.to_owned(), |mut text, n| {
        writeln!(text, "{}", row(n)).unwrap();
        text
    })
}

fn named<'a>(curves: &'a [Curve], part: &str) -> &'a Curve {
    curves.iter().find(|curve| curve.name.contains(part)).unwrap()
}

fn names(curves: &[Curve]) -> Vec<&str> {
    curves.iter().map(|curve| curve.name.as_str()).collect()
}

const G: u64 = 1_000_000_000;

#[test]
fn files_of_a_cgroup_are_no_gpu_memory_and_their_cache_is_no_need() {
    let second = rows("time,memory.current,memory.stat.file,memory.stat.anon,memory.max\n", |n| {
        format!("{},{},{},{},{}", n * 10, 35 * G + n * G / 10, 30 * G + n * G / 10, 5 * G, 64 * G)
    });
    let curve = only(&second);
    assert_eq!((curve.metric.clone(), curve.y[59]), (Metric::Anon, 5e9));
    assert_eq!(curve.series["file"][59], 35.9e9);
    assert_eq!(curve.context.limit, Some(Bytes::from_f64(64e9)));
    let first = rows("time,memory.usage_in_bytes,total_cache,total_rss\n", |n| {
        format!("{},{},{},{}", n * 10, 35 * G + n * G / 10, 30 * G + n * G / 10, 5 * G)
    });
    let curve = only(&first);
    assert_eq!((curve.y[59], curve.series["anon"][59], curve.context.limit), (5e9, 5e9, None));
    let without_anon = rows("time,memory.current,memory.stat.file\n", |n| {
        format!("{},{},{}", n * 10, 35 * G + n * G / 10, 30 * G + n * G / 10)
    });
    let curve = only(&without_anon);
    assert_eq!((curve.metric.clone(), curve.y[59], curve.series["anon"][59]), (Metric::Cgroup, 40.9e9, 5e9));
}

#[test]
fn a_cgroups_charge_is_held_against_its_max_and_its_swap_is_needed() {
    let table = rows("time,memory.current,memory.max\n", |n| format!("{},{},{}", n * 10, 35 * G, 64 * G));
    assert_eq!(only(&table).context.limit, Some(Bytes::from_f64(64e9)));
    let log = rows("", |n| {
        format!(
            "step {n} memory.current={} memory.stat.file={} memory.max={}",
            35 * G + n,
            30 * G + n,
            64 * G
        )
    });
    let curve = only(&log);
    assert_eq!((curve.metric.clone(), curve.context.limit), (Metric::Cgroup, Some(Bytes::from_f64(64e9))));
    assert_eq!(curve.series["anon"][59], 5e9);
    let swapped =
        rows("time,memory.current,memory.swap.current\n", |n| format!("{},{},{}", n * 10, 35 * G, n * G));
    assert_eq!(only(&swapped).series["swap"][59], 59e9);
    let plain = rows("step,memory.used [MiB]\n", |n| format!("{n},{}", 20_000 + n));
    assert_eq!(only(&plain).metric, Metric::Gpu, "nvidia-smi's own columns stay what they are");
}

#[test]
fn a_total_of_processes_is_a_sum_and_no_limit() {
    for (heading, row) in [
        ("time,rss,total_rss", "3000000000,5000000000"),
        ("time,main_rss_mb,total_rss_mb", "3000,5000"),
        ("time,usage_bytes,total_rss_bytes", "35000000000,5000000000"),
    ] {
        let curves = of_text(&rows(&format!("{heading}\n"), |n| format!("{},{row}", n * 10)));
        assert!(curves.iter().any(|curve| curve.y[0] == 5e9), "{heading}: {:?}", names(&curves));
        assert!(curves.iter().all(|curve| curve.context.limit.is_none()), "{heading}");
    }
    let machine = rows("time,mem_used,mem_total\n", |n| format!("{},{},64000", n * 10, 3000 + n));
    assert_eq!(only(&machine).context.limit, Some(Bytes::from_f64(64e9)));
}
