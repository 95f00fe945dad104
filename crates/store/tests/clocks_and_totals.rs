//! Foreign files whose answer hangs on what a clock counts, which of two sizes is the total, and whose rows are no course.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]
#![allow(clippy::float_cmp, reason = "numbers that were written are read, not computed")]

mod text;

use lowtide_model::{Axis, Bytes, Curve, Metric};
use lowtide_store::import::{Hints, parse};
use proptest::prelude::*;
use std::path::Path;
use text::{notes, of_text, only, refused};

const MIB: f64 = 1024.0 * 1024.0;

/// A line for each number below `count`.
fn lines(count: u32, line: impl Fn(u32) -> String) -> String {
    (0..count).map(|n| line(n) + "\n").collect()
}

/// What is read where the user says what is what.
fn asked(text: &str, hints: &Hints) -> Curve {
    parse(Path::new("x.csv"), text.as_bytes(), hints).unwrap().remove(0)
}

fn hints(x: Option<&str>, y: Option<&str>, unit: Option<&str>) -> Hints {
    Hints { x: x.map(Into::into), y: y.map(Into::into), unit: unit.map(Into::into) }
}

/// How far x went, in seconds.
fn seconds(curve: &Curve) -> f64 {
    assert_eq!(curve.axis, Axis::Seconds, "{}", notes(curve));
    curve.x[curve.x.len() - 1] - curve.x[0]
}

fn about(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= wanted.abs() * 1e-9
}

#[test]
fn the_unit_in_the_name_of_a_clock_is_what_it_counts() {
    for (name, units_a_second) in [
        ("elapsed_ms", 1e3),
        ("elapsedMs", 1e3),
        ("time_ms", 1e3),
        ("timestamp_ms", 1e3),
        ("Time (ms)", 1e3),
        ("t_ms", 1e3),
        ("time_us", 1e6),
        ("time_µs", 1e6),
        ("uptime_ns", 1e9),
        ("elapsed_sec", 1.0),
        ("uptime_s", 1.0),
        ("elapsed_min", 1.0 / 60.0),
        ("time [min]", 1.0 / 60.0),
        ("minutes", 1.0 / 60.0),
        ("wall_time_hours", 1.0 / 3600.0),
        ("t_h", 1.0 / 3600.0),
    ] {
        let row = |n: u32| format!("{:e},{}", f64::from(n) * 60.0 * units_a_second, 4000 + n);
        let curve = only(&format!("{name},mem_mb\n{}", lines(40, row)));
        assert!(about(seconds(&curve), 39.0 * 60.0), "{name}: {} {}", seconds(&curve), notes(&curve));
    }
    let said = only(&format!("elapsed_ms,mem_mb\n{}", lines(40, |n| format!("{n}000,{}", 4000 + n))));
    assert!(notes(&said).contains("which counts milliseconds; x is in seconds"), "{}", notes(&said));
}

#[test]
fn a_clock_since_1970_is_told_by_its_size_whatever_its_name_says() {
    for (name, zeros) in [("ts", "000"), ("timestamp_ms", "000"), ("time_s", "000"), ("time_ns", "000000000")]
    {
        let curve = only(&format!(
            "{name},mem_mb\n{}",
            lines(40, |n| format!("{}{zeros},{}", 1_767_000_000 + n, 4000 + n))
        ));
        assert_eq!(seconds(&curve), 39.0, "{name}");
        assert_eq!(curve.x[0], 0.0, "{name}");
    }
}

#[test]
fn a_clock_that_begins_late_keeps_the_unit_of_its_name() {
    // An hour of uptime in microseconds is no second of our time.
    let curve =
        only(&format!("time_us,mem_mb\n{}", lines(40, |n| format!("{}000000,{}", 3600 + n, 4000 + n))));
    assert_eq!((seconds(&curve), curve.x[0]), (39.0, 3600.0));
}

#[test]
fn names_that_only_look_like_clocks_are_none() {
    for name in ["items", "rpm", "columns", "loss_min", "gpu_hours"] {
        let curve = only(&format!("{name},mem_mb\n{}", lines(40, |n| format!("{n},{}", 4000 + n))));
        assert_eq!((curve.axis, curve.x[39]), (Axis::Sample, 39.0), "{name}");
    }
}

#[test]
fn how_long_a_step_took_is_no_clock() {
    let up_and_down = |n: u32| 600 + n % 2;
    let rounded = |n: u32| 600 + u32::from(n % 10 == 4);
    for took in [up_and_down as fn(u32) -> u32, rounded] {
        for name in ["time_ms", "time", "step_time_ms", "sec_per_step"] {
            let curve =
                only(&format!("{name},mem_mb\n{}", lines(40, |n| format!("{},{}", took(n), 4000 + n))));
            assert_eq!((curve.axis, curve.x[39]), (Axis::Sample, 39.0), "{name}: {}", notes(&curve));
        }
        let log = only(&lines(40, |n| format!("time: {} ms mem {} MB", took(n), 4000 + n)));
        assert_eq!((log.axis, log.x[39]), (Axis::Sample, 39.0), "{}", notes(&log));
    }
    // A name with `step` in it is no step either.
    let beside = only(&format!(
        "step_time_ms,step,mem_mb\n{}",
        lines(40, |n| format!("{},{},{}", up_and_down(n), 10 * n, 4000 + n))
    ));
    assert_eq!((beside.axis, beside.x[39]), (Axis::Step, 390.0));
    let rates = only(&lines(40, |n| format!("time 0.{n:02} s/it mem {} MB", 4000 + n)));
    assert_eq!(rates.axis, Axis::Sample, "{}", notes(&rates));
}

#[test]
fn a_unit_of_time_behind_a_number_counts_in_logs() {
    for (line, each) in [
        ("elapsed={n}.5h mem={m} MB", 3600.0),
        ("time: {n}00 ms, mem: {m} MB", 0.1),
        ("time: {n}00 ms, mem: {m}", 0.1),
        ("elapsed {n} min | rss {m} MB", 60.0),
        ("elapsed_ms={n}000 mem={m} MB", 1.0),
        ("{\"elapsed_ms\": {n}000, \"rss_mb\": {m}}", 1.0),
        ("{\"time (ms)\": {n}000, \"rss_mb\": {m}}", 1.0),
        ("{\"wall_time_s\": {n}, \"rss_mb\": {m}}", 1.0),
        ("{'uptimeMinutes': {n}, 'rss_mb': {m}}", 60.0),
        ("[{n}000 ms] mem={m} MB", 1.0),
        ("after {n} min: mem {m} MB", 60.0),
        ("t=5{n}.0s mem={m}", 1.0),
    ] {
        // Of two digits each, so that whatever stands before them stays the same.
        let write =
            |n: u32| line.replace("{n}", &(10 + n).to_string()).replace("{m}", &(4000 + n).to_string());
        let curve = only(&lines(40, write));
        assert!(about(seconds(&curve), 39.0 * each), "{line}: {} {}", seconds(&curve), notes(&curve));
    }
}

#[test]
fn minutes_and_seconds_together_are_read_to_their_end() {
    let time = |n: u32| format!("{}m{:02}s", n / 60, n % 60);
    let log = lines(200, |n| format!("elapsed: {} mem: {} MB", time(n), 4000 + n));
    let records = lines(200, |n| format!("{{\"elapsed\": \"{}\", \"rss_mb\": {}}}", time(n), 4000 + n));
    let table = format!("elapsed,mem_mb\n{}", lines(200, |n| format!("{},{}", time(n), 4000 + n)));
    let bracket = lines(200, |n| format!("[{}] mem: {} MB", time(n), 4000 + n));
    for text in [log, records, table, bracket] {
        let curve = only(&text);
        assert_eq!((seconds(&curve), curve.x[65]), (199.0, 65.0), "{text:.40}");
    }
    let days = only(&format!("elapsed,mem_mb\n{}", lines(40, |n| format!("{}h30m,{}", n, 4000 + n))));
    assert_eq!(seconds(&days), 39.0 * 3600.0);
}

#[test]
fn letters_of_other_keys_are_no_units_of_time() {
    let curve = only(&lines(40, |n| format!("t={n} h=3 mem={} MB", 4000 + n)));
    assert_eq!(seconds(&curve), 39.0);
    let time_of_day = only(&lines(40, |n| format!("time: 09:00:{n:02} mem={} MB", 4000 + n)));
    assert_eq!(seconds(&time_of_day), 39.0);
}

#[test]
fn a_clock_that_is_asked_for_is_one() {
    let log = lines(40, |n| format!("step {} elapsed_ms={n}000 mem={} MB", 7 * n, 4000 + n));
    assert_eq!(only(&log).axis, Axis::Step);
    assert_eq!(seconds(&asked(&log, &hints(Some("elapsed_ms"), None, None))), 39.0);
}

#[test]
fn two_sizes_without_names_are_what_is_used_and_the_total() {
    let used = |n: u32| 5000 + 7 * n;
    let wobbling = |n: u32| 5000 + 7 * n - 20 * (n % 2);
    for (line, place) in [
        (lines(40, |n| format!("{} MiB, 24576 MiB", used(n))), Axis::Sample),
        (lines(40, |n| format!("24576 MiB, {} MiB", used(n))), Axis::Sample),
        (lines(40, |n| format!("{}, 24576", wobbling(n))), Axis::Sample),
        (lines(40, |n| format!("{n},{}MiB,24576MiB,N/A", used(n))), Axis::Sample),
        (lines(40, |n| format!("0, {} MiB, 24576 MiB, [N/A]", used(n))), Axis::Sample),
        (lines(40, |n| format!("2026/01/02 03:04:{n:02}.000, {} MiB, 24576 MiB", used(n))), Axis::Seconds),
    ] {
        let curve = only(&line);
        let last =
            if line.starts_with("4980") || line.starts_with("5000, ") { wobbling(39) } else { used(39) };
        assert_eq!((curve.y[39], curve.axis), (f64::from(last) * MIB, place), "{line:.40}");
        assert_eq!((curve.x.len(), curve.x[39]), (40, 39.0), "{line:.40}");
        assert_eq!(curve.context.limit, Some(Bytes(24 << 30)), "{line:.40}");
        assert!(notes(&curve).contains("is taken as the total"), "{}", notes(&curve));
        assert!(!notes(&curve).contains("x is everywhere the same"), "{}", notes(&curve));
    }
    let flat = only(&lines(40, |_| "5000 MiB, 24576 MiB".to_owned()));
    assert_eq!((flat.y[39], flat.context.limit), (5000.0 * MIB, Some(Bytes(24 << 30))));
}

#[test]
fn numbers_that_may_be_steps_or_what_is_used_are_refused() {
    let text = lines(40, |n| format!("{}, 24576", 5000 + 7 * n));
    let error = refused(&text);
    assert!(error.contains("--y 1 says the first, --y 2 the second"), "{error}");
    let used = asked(&text, &hints(None, Some("1"), None));
    assert_eq!((used.y[0], used.context.limit), (5000.0 * MIB, Some(Bytes(24 << 30))));
    assert_eq!(asked(&text, &hints(None, Some("2"), None)).x[0], 5000.0);
    for start in [0, 10] {
        let steps = only(&lines(40, |n| format!("{} 24576", start + 10 * n)));
        assert_eq!(
            (steps.x[39], steps.y[39]),
            (f64::from(start + 390), 24_576e6),
            "steps count from the start"
        );
    }
}

#[test]
fn cards_in_a_table_without_names_are_not_mixed() {
    let cards = lines(40, |n| format!("{}, {} MiB, 24576 MiB", n % 2, 4000 + n % 2 * n));
    assert!(refused(&cards).contains("3 columns without names"), "{}", refused(&cards));
    let pods = of_text(&format!("Time,a,b\n{}", lines(40, |n| format!("{n},{}MiB,9000MiB", 4000 + n))));
    assert_eq!(pods.len(), 2, "what has a name is no total of another");
}

#[test]
fn a_size_with_its_unit_is_no_x() {
    let text = format!("a,rss\n{}", lines(40, |n| format!("{n} MiB,{} MiB", 4000 + n)));
    let error = parse(Path::new("x.csv"), text.as_bytes(), &hints(Some("a"), Some("rss"), None)).unwrap_err();
    assert!(error.to_string().contains("which orders nothing"), "{error}");
    let curve = only(r#"{"x": [null, null, null], "y": [1, 2, 3], "unit": "GB"}"#);
    assert!(notes(&curve).contains("x holds no numbers"), "{}", notes(&curve));
}

#[test]
fn a_comma_between_cells_is_no_decimal_mark() {
    let curve = only(&lines(40, |n| format!("train,{n},{}MiB,81920MiB,on", 4000 + n)));
    assert_eq!(curve.y[39], 4039.0 * MIB, "{}", notes(&curve));
    let european = only(&lines(40, |n| format!("step {n}: RSS 2,{n:02} GB")));
    assert!(about(european.y[39], 2.39e9));
}

/// A screen of `sstat -j`.
fn sstat(n: u32, job: &str) -> String {
    format!(
        "       JobID  MaxVMSize  MaxVMSizeNode  AveVMSize     MaxRSS MaxRSSNode     AveRSS\n\
         ------------ ---------- -------------- ---------- ---------- ---------- ----------\n\
         {job:>12}  20000000K          node1  20000000K {:>9}K      node1   3900000K",
        4_000_000 + n
    )
}

#[test]
fn the_highest_resident_memory_of_a_job_step_is_taken_from_slurm() {
    let screens = lines(40, |n| sstat(n, "123.batch"));
    let piped =
        format!("JobID|MaxRSS|AveRSS\n{}", lines(40, |n| format!("123.batch|{}K|3900000K", 4_000_000 + n)));
    let ended =
        format!("JobID|MaxRSS|AveRSS|\n{}", lines(40, |n| format!("123.batch|{}K|3900000K|", 4_000_000 + n)));
    for text in [&screens, &piped, &ended] {
        let curve = only(text);
        assert_eq!((&curve.metric, curve.y[39]), (&Metric::MaxRss, 4_000_039.0 * 1024.0), "{text:.60}");
        assert!(notes(&curve).contains("Slurm's `MaxRSS`"), "{}", notes(&curve));
    }
    let mean = asked(&screens, &hints(None, Some("AveRSS"), None));
    assert_eq!((&mean.metric, mean.y[39]), (&Metric::Rss, 3_900_000.0 * 1024.0));
    let timed = only(&lines(40, |n| format!("2026-03-01T12:00:{n:02}\n{}", sstat(n, "123.batch"))));
    assert_eq!(seconds(&timed), 39.0);
    let two = of_text(&lines(40, |n| format!("{}\n{}", sstat(n, "123.0"), sstat(2 * n, "123.1"))));
    assert_eq!(two.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["x: 123.0", "x: 123.1"]);
}

#[test]
fn an_empty_cell_of_slurm_shifts_no_column() {
    let empty = |n: u32| sstat(n, "123.batch").replace("     node1 ", "           ");
    assert_eq!(only(&lines(40, empty)).y[39], 4_000_039.0 * 1024.0);
}

#[test]
fn many_jobs_of_slurm_are_no_course() {
    let piped = lines(9, |n| {
        format!(
            "{0}|train|01:0{n}:00|{1}K|16G|DONE\n{0}.batch|batch|01:0{n}:00|{1}K||DONE",
            1000 + n,
            4_000_000 + n
        )
    });
    let blanks = lines(9, |n| format!("{}.batch         4.{n}0G   01:0{n}:00  COMPLETED ", 1000 + n));
    for text in [
        format!("JobID|JobName|Elapsed|MaxRSS|ReqMem|State\n{piped}"),
        format!(
            "             JobID     MaxRSS    Elapsed      State \n------------------ ---------- ---------- ---------- \n{blanks}"
        ),
    ] {
        let error = refused(&text);
        assert!(error.contains("each row is another job (1000") && error.contains("sstat -j"), "{error}");
    }
    let table = only(&format!("time,JobID,MaxRSS\n{}", lines(40, |n| format!("{n},123,{}K", 4_000_000 + n))));
    assert_eq!(seconds(&table), 39.0, "a table of its own is one");
}

#[test]
fn a_time_of_day_is_no_size() {
    let text = format!("step,rss_mb\n{}", lines(40, |n| format!("{n},12:00:{n:02}")));
    assert!(parse(Path::new("x.csv"), text.as_bytes(), &Hints::default()).is_err());
}

#[test]
fn the_total_beside_what_is_free_gives_the_level_without_units_too() {
    for line in [
        "step {n} mem_free={f}000000 mem_total=64000000000",
        "step {n} mem_available_gb={g} mem_total_gb=64.00",
        "step {n} gpu_free={f} gpu_total=64000 swap_total=9",
        "{\"step\": {n}, \"mem_free\": {f}000000, \"mem_total\": 64000000000}",
        "step {n} memory: {f} MB free of 64000 MB",
        "step {n} memory: {f} MB available out of 64000 MB",
        "step {n} RAM: {g} free of 64.00 GB",
        "step {n} free memory: {g}/64.00 GB",
    ] {
        let write = |n: u32| {
            let free = 30_000 - 10 * n;
            let gigabytes = format!("{}.{:02}", free / 1000, free % 1000 / 10);
            line.replace("{n}", &n.to_string()).replace("{f}", &free.to_string()).replace("{g}", &gigabytes)
        };
        let curve = only(&lines(40, write));
        assert!(
            about(curve.y[0], 34e9) && about(curve.y[39], 34.39e9),
            "{line}: {} {}",
            curve.y[0],
            notes(&curve)
        );
        assert_eq!((curve.no_level, curve.context.limit), (false, Some(Bytes(64_000_000_000))), "{line}");
    }
}

#[test]
fn a_total_alone_is_still_no_curve_and_what_is_used_stays_used() {
    let total = lines(40, |n| format!("step {n} mem_total=64000000000"));
    assert!(refused(&total).contains("a training log"), "{}", refused(&total));
    let used = only(&lines(40, |n| format!("step {n} memory: {} MB used of 64000 MB", 5000 + n)));
    assert_eq!((used.y[39], used.no_level), (5039e6, false));
    assert_eq!(used.context.limit, Some(Bytes(64_000_000_000)));
    let held = only(&lines(40, |n| format!("step {n} rss={} mem_free=30000 mem_total=64000", 2000 + n)));
    assert_eq!(held.y[39], 2039e6);
}

#[test]
fn few_with_decimals_and_no_unit_are_gigabytes() {
    let rows = |mark: &str| lines(40, |n| format!("{n}{mark}5.{n:02}"));
    let curve_json: Vec<String> = (0..40).map(|n| format!("5.{n:02}")).collect();
    for text in [
        format!("step,rss\n{}", rows(",")),
        format!("step\trss\n{}", rows("\t")),
        rows(" "),
        lines(40, |n| format!("step {n} loss 0.3 rss 5.{n:02}")),
        lines(40, |n| format!("{{\"step\": {n}, \"cpu_mem\": 5.{n:02}}}")),
        format!(r#"{{"y": [{}]}}"#, curve_json.join(",")),
    ] {
        let curve = only(&text);
        assert!(about(curve.y[39], 5.39e9), "{text:.40}: {}", curve.y[39]);
        assert!(notes(&curve).contains("no process that trains has so few MB"), "{}", notes(&curve));
    }
}

#[test]
fn what_may_be_megabytes_stays_megabytes() {
    for (values, bytes) in [("512.{n}", 512.39e6), ("50{n}", 5039e6), ("{n}", 39e6)] {
        let write = |n: u32| values.replace("{n}", &format!("{n:02}"));
        for text in [
            format!("step,rss\n{}", lines(40, |n| format!("{n},{}", write(n)))),
            lines(40, |n| format!("step {n} rss {}", write(n))),
        ] {
            assert!(about(only(&text).y[39], bytes), "{text:.40}: {}", only(&text).y[39]);
        }
    }
    let told = asked(
        &format!("step,rss\n{}", lines(40, |n| format!("{n},5.{n:02}"))),
        &hints(None, None, Some("MB")),
    );
    assert!(about(told.y[39], 5.39e6));
}

#[test]
fn what_is_nowhere_above_one_is_refused_until_its_unit_is_told() {
    let table = format!("step,memory\n{}", lines(40, |n| format!("{n},0.5{n:02}")));
    assert!(refused(&table).contains("say which with --unit"), "{}", refused(&table));
    let log = lines(40, |n| format!("step {n} rss 0.5{n:02}"));
    assert!(refused(&log).contains("part of a whole"), "{}", refused(&log));
    for text in [table, log] {
        assert!(about(asked(&text, &hints(None, None, Some("GB"))).y[39], 0.539e9));
    }
}

/// Words that these readers look for, with what may stand between them.
const WORDS: &[&str] = &[
    "JobID",
    "MaxRSS",
    "AveRSS",
    "Elapsed",
    "------------",
    "123.batch",
    "4000K",
    "elapsed_ms",
    "time",
    "(ms)",
    "[",
    "]",
    "=",
    ":",
    "1m05s",
    "0.5h",
    "100",
    "ms",
    "h",
    "µs",
    "since",
    "mem_free",
    "mem_total",
    "free",
    "of",
    "64 GB",
    "24576 MiB",
    "N/A",
    "5.31",
    "0",
    "|",
    ",",
    "\t",
    "\n",
    "\n",
    "\n",
    "é",
    "\u{a0}",
];

proptest! {
    #[test]
    fn no_mixture_of_what_is_looked_for_panics(words in prop::collection::vec((prop::sample::select(WORDS), prop::bool::ANY), 0..120)) {
        let text: String = words.iter().map(|(word, blank)| format!("{word}{}", if *blank { " " } else { "" })).collect();
        let _ = parse(Path::new("x.txt"), text.as_bytes(), &Hints::default());
    }
}
