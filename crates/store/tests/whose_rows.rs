//! Rows of several processes in one file: each is a curve, or the file's remarks say that nothing tells them apart.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]
#![allow(clippy::float_cmp, reason = "numbers that were written are read, not computed")]

mod text;

use std::fmt::Write;
use text::{notes, of_text, only, refused};

const STEPS: u32 = 40;

/// Lines of `each` processes in turn, of which the last one leaks; `line` gets step, process and MB.
fn in_turn(each: u32, line: impl Fn(u32, u32, u32) -> String) -> String {
    let mut text = String::new();
    for step in 0..STEPS {
        for process in 0..each {
            let leaked = if process + 1 == each { step } else { 0 };
            writeln!(text, "{}", line(step, process, 600 + leaked)).unwrap();
        }
    }
    text
}

fn told(text: &str) -> Vec<(String, usize, f64)> {
    let curves = of_text(text);
    curves.iter().map(|c| (c.name.clone(), c.x.len(), c.y[c.y.len() - 1] / 1e6)).collect()
}

/// Fails unless there is one curve a process, called by what `label` makes of its number.
fn assert_one_curve_each(text: &str, each: u32, label: impl Fn(u32) -> String) {
    let expected: Vec<(String, usize, f64)> = (0..each)
        .map(|n| (format!("x: {}", label(n)), STEPS as usize, if n + 1 == each { 639.0 } else { 600.0 }))
        .collect();
    assert_eq!(told(text), expected, "{text:.200}");
}

const HIDDEN: &str = "nothing says whose they are";

#[test]
fn records_on_lines_are_a_curve_a_rank_or_a_worker() {
    for key in ["rank", "local_rank", "global_rank", "worker", "worker_id", "shard"] {
        let text = in_turn(4, |step, n, mb| format!(r#"{{"step": {step}, "{key}": {n}, "rss_mb": {mb}}}"#));
        assert_one_curve_each(&text, 4, |n| format!("{key} {n}"));
    }
    let words = in_turn(2, |step, n, mb| {
        format!(
            r#"{{"step":{step},"loss":0.{n}{step},"who":"{}","rss_mb":{mb}}}"#,
            ["actor", "critic"][n as usize]
        )
    });
    assert_one_curve_each(&words, 2, |n| format!("who {}", ["actor", "critic"][n as usize]));
}

#[test]
fn a_label_at_one_place_of_each_line_is_a_curve_each() {
    type Line = fn(u32, u32, u32) -> String;
    type Name = fn(u32) -> String;
    let lines: [(Line, Name); 9] = [
        (|step, n, mb| format!("local_rank={n} step={step} mem={mb} MB"), |n| format!("local_rank {n}")),
        (|step, n, mb| format!("cuda:{n} step={step} mem={mb} MB"), |n| format!("cuda {n}")),
        (|step, n, mb| format!("GPU {n} step {step}: mem {mb} MB"), |n| format!("GPU {n}")),
        (|step, n, mb| format!("INFO:root:[{n}] step={step} cpu_mem={mb}MB"), |n| n.to_string()),
        (|step, n, mb| format!("({n}) step {step}: mem {mb} MB"), |n| n.to_string()),
        (|step, n, mb| format!("worker {n} | step {step} | RSS {mb} MB"), |n| format!("worker {n}")),
        (
            |step, n, mb| format!("2026-01-02 03:04:{step:02},123 [MainProcess-{n}] step={step} RSS {mb} MB"),
            |n| format!("MainProcess-{n}"),
        ),
        (
            |step, n, mb| format!("2026-01-02 03:04:{step:02} worker-{n} INFO step={step} rss_mb={mb}"),
            |n| format!("worker-{n}"),
        ),
        (|step, n, mb| format!("step {step} on node-{n}.lab rss {mb} MB"), |n| format!("node-{n}.lab")),
    ];
    for (line, name) in lines {
        assert_one_curve_each(&in_turn(3, line), 3, name);
    }
}

#[test]
fn ranks_that_come_in_no_order_and_epochs_change_nothing() {
    let shuffled = in_turn(4, |step, n, mb| {
        let n = (n + step * 3) % 4;
        let mb = if n == 3 { 600 + step } else { mb.min(600) };
        format!("cuda:{n} step={step} mem={mb} MB")
    });
    let names: Vec<String> = told(&shuffled).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["x: cuda 0", "x: cuda 1", "x: cuda 2", "x: cuda 3"]);
    let epochs =
        in_turn(2, |step, n, mb| format!("epoch {} (device {n}) step {}: mem {mb} MB", step / 10, step % 10));
    assert_one_curve_each(&epochs, 2, |n| format!("device {n}"));
    let late = in_turn(3, |step, n, mb| {
        if n == 1 && step < 25 { "starting".to_owned() } else { format!("({n}) step {step}: mem {mb} MB") }
    });
    assert_eq!(told(&late).iter().map(|found| found.1).collect::<Vec<_>>(), [40, 15, 40]);
}

#[test]
fn two_labels_tell_apart_what_one_does_not() {
    let text = in_turn(4, |step, n, mb| format!("[node{}] gpu {} step {step} rss {mb} MB", n / 2, n % 2));
    assert_one_curve_each(&text, 4, |n| format!("node{}, gpu {}", n / 2, n % 2));
    let ranks = in_turn(4, |step, n, mb| format!("step {step} host h{} rank {} rss {mb} MB", n / 2, n % 2));
    let names: Vec<String> = told(&ranks).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["x: rank 0, h0", "x: rank 0, h1", "x: rank 1, h0", "x: rank 1, h1"]);
}

#[test]
fn workers_that_take_turns_need_no_step() {
    let text = in_turn(3, |step, n, mb| {
        format!("03:{:02}:{:02},{n}11 Worker-{n} rss {mb} MB", step / 60, step % 60)
    });
    assert_one_curve_each(&text, 3, |n| format!("Worker-{n}"));
}

#[test]
fn numbers_in_brackets_that_are_no_ranks_part_nothing() {
    type Line = fn(u32) -> String;
    let lines: [Line; 8] = [
        |n| format!("[{}] step {n} mem {} MB", n / 10, 600 + n),
        |n| format!("step {n} [{}] mem {} MB", n % 7, 600 + n),
        |n| format!("step {n} ({}) mem {} MB", n * 7 % 5, 600 + n),
        |n| format!("Epoch [{}][{}/40] memory: {} MB", n / 40, n % 40, 600 + n),
        |n| format!("step {} [{}/4] mem {} MB", n / 4, 1 + n % 4, 600 + n),
        |n| format!("step {} micro_batch {} mem {} MB", n / 4, n % 4, 600 + n),
        |n| format!("Epoch {}/2 | step {}/80 | mem {} MB", 1 + n / 80, n % 80, 600 + n),
        |n| format!("step {} loss 0.{} acc {} mem {} MB", n / 2, n % 9, 90 + n % 3, 600 + n),
    ];
    for line in lines {
        let text = (0..160).map(|n| line(n) + "\n").collect::<String>();
        let curve = only(&text);
        assert_eq!(curve.x.len(), 160, "{text:.100}");
        assert!(!notes(&curve).contains(HIDDEN), "{text:.100}\n{}", notes(&curve));
    }
}

#[test]
fn what_says_when_in_a_step_is_of_one_process() {
    for words in [["before", "after"], ["forward", "backward"], ["train", "eval"]] {
        let line =
            |step, n: u32, _| format!("step {step} {}: mem {} MB", words[n as usize], 500 + 400 * n + step);
        let curve = only(&in_turn(2, line));
        assert_eq!((curve.x.len(), notes(&curve).contains(HIDDEN)), (80, false), "{}", notes(&curve));
        let row = |step, n: u32, _| format!("{step},{},{}", words[n as usize], 500 + 400 * n + step);
        let curve = only(&format!("step,phase,rss_mb\n{}", in_turn(2, row)));
        assert_eq!((curve.x.len(), notes(&curve).contains(HIDDEN)), (80, false), "{}", notes(&curve));
    }
    let trainers = in_turn(2, |step, n, mb| format!("step {step} train-{n}: mem {mb} MB"));
    assert_eq!(of_text(&trainers).len(), 2, "two that train are no two moments");
}

#[test]
fn any_column_that_tells_rows_with_one_x_apart_is_a_curve_each() {
    for name in ["worker_id", "global_rank", "name", "role", "job_id", "shard", "pod_name"] {
        let numbers = in_turn(3, |step, n, mb| format!("{step},{n},{mb}"));
        assert_one_curve_each(&format!("step,{name},rss_mb\n{numbers}"), 3, |n| format!("{name} {n}"));
        let words = in_turn(2, |step, n, mb| format!("{step},{},{mb}", ["a", "b"][n as usize]));
        assert_one_curve_each(&format!("step,{name},rss_mb\n{words}"), 2, |n| {
            format!("{name} {}", ["a", "b"][n as usize])
        });
    }
}

#[test]
fn rows_that_are_sorted_by_a_name_are_a_curve_each() {
    let rows: String = (0..80).map(|n| format!("{},{},{}\n", n % 40, ["a", "b"][n / 40], 600 + n)).collect();
    let found = told(&format!("step,name,rss_mb\n{rows}"));
    assert_eq!(found, [("x: name a".to_owned(), 40, 639.0), ("x: name b".to_owned(), 40, 679.0)]);
    let passes: String = (0..80).map(|n| format!("{},{},{}\n", n / 40, n % 40, 600 + n)).collect();
    for name in ["epoch", "pass", "sweep"] {
        let curve = only(&format!("{name},step,rss_mb\n{passes}"));
        assert_eq!(curve.x.len(), 80, "{name}");
    }
}

#[test]
fn a_column_with_few_values_that_is_measured_tells_nobody_apart() {
    for (name, of) in [
        ("gpu_util", (|n| 97 + n * 7 % 3) as fn(u32) -> u32),
        ("loss", |n| n * 13 % 5),
        ("epoch", |n| n / 20),
        ("phase", |n| u32::from(n % 40 > 30)),
        ("lr", |n| n / 27),
    ] {
        let rows: String = (0..80).map(|n| format!("{n},{},{}\n", of(n), 600 + n)).collect();
        let curve = only(&format!("step,{name},rss_mb\n{rows}"));
        assert_eq!((curve.x.len(), notes(&curve).contains(HIDDEN)), (80, false), "{name}");
        let twice: String = (0..80).map(|n| format!("{},{},{}\n", n / 2, of(n), 600 + n)).collect();
        let curve = only(&format!("step,{name},rss_mb\n{twice}"));
        assert_eq!((curve.x.len(), notes(&curve).contains(HIDDEN)), (80, false), "{name}");
    }
}

#[test]
fn rows_that_nothing_tells_apart_are_never_folded_in_silence() {
    let log = only(&in_turn(2, |step, _, mb| format!("step={step} cpu_mem={mb}MB")));
    let table = only(&format!("step,rss_mb\n{}", in_turn(2, |step, _, mb| format!("{step},{mb}"))));
    let json = only(&in_turn(3, |step, _, mb| format!(r#"{{"step": {step}, "rss_mb": {mb}}}"#)));
    let loads = in_turn(2, |step, n, mb| format!("{step},{},{mb}", 97 + (step * 7 + n) % 3));
    let measured = only(&format!("step,gpu_util,rss_mb\n{loads}"));
    for curve in [log, table, json, measured] {
        assert!(notes(&curve).contains(HIDDEN), "{}", notes(&curve));
    }
}

#[test]
fn several_samples_of_one_process_at_one_time_need_no_remark() {
    let noise = |n: u32| 600 + n * 7919 % 31 + n / 8;
    let fast: String = (0..240).map(|n| format!("12:00:{:02} rss {} MB\n", n / 4, noise(n))).collect();
    let twice: String = (0..80).map(|n| format!("step {} rss {} MB\n", n / 2, 600 + n / 2)).collect();
    let climbs: String = (0..80).map(|n| format!("{},{}\n", n / 2, 600 + n)).collect();
    for text in [fast, twice, format!("step,rss_mb\n{climbs}")] {
        assert!(!notes(&only(&text)).contains(HIDDEN), "{}", notes(&only(&text)));
    }
}

#[test]
fn what_a_column_says_nobody_has_to_hold_is_left_out_and_said() {
    let rows = in_turn(2, |step, n, mb| format!("{step},p,{},{mb}000000", ["rss", "cache"][n as usize]));
    let curve = only(&format!("time_s,pod,type,bytes\n{rows}"));
    assert_eq!((curve.name.as_str(), curve.y[39]), ("x: type rss", 600e6));
    assert!(notes(&curve).contains("40 rows tell what no process has to hold"), "{}", notes(&curve));
}

/// A /proc/PID/status loop in which only pages of files come.
fn status(n: u32) -> String {
    format!(
        "VmPeak:\t20000000 kB\nVmHWM:\t {rss} kB\nVmRSS:\t {rss} kB\nRssAnon:\t 1900000 kB\nRssFile:\t {file} kB\n\
         RssShmem:\t 0 kB\nVmSwap:\t0 kB\n",
        rss = 3_900_000 + 1000 * n,
        file = 2_000_000 + 1000 * n,
    )
}

#[test]
fn file_pages_of_a_process_stand_beside_what_it_holds() {
    type Screen = fn(u32) -> String;
    let file = |n: u32| 2_000_000 + 1000 * n;
    let screens: [Screen; 5] = [
        status,
        |n| format!("Sun Mar  1 12:{:02}:{:02} 2026\n{}", n / 60, n % 60, status(n)),
        |n| format!("step {n} RssAnon: 1900000 kB RssFile: {} kB", 2_000_000 + 1000 * n),
        |n| format!("step {n} RssFile: {} kB VmRSS: {} kB", 2_000_000 + 1000 * n, 3_900_000 + 1000 * n),
        |n| format!("step {n} rss_anon=1900000kB rss_file={}kB rss_shmem=0kB", 2_000_000 + 1000 * n),
    ];
    for screen in screens {
        let text: String = (0..STEPS).map(|n| screen(n) + "\n").collect();
        for curve in of_text(&text) {
            assert!(!curve.name.contains("file"), "{}", curve.name);
            if curve.name.contains("shmem") {
                continue;
            }
            assert_eq!(curve.x.len(), STEPS as usize, "{text:.100}");
            let anon = &curve.series["anon"];
            assert_eq!(anon[0], anon[39], "{text:.100}");
            let grown = curve.series["file"][39] - curve.series["file"][0];
            let kib = f64::from(file(39) - file(0));
            assert!([kib * 1024.0, kib * 1000.0].contains(&grown), "{text:.100}");
        }
    }
}

#[test]
fn shared_memory_that_grows_is_not_taken_back() {
    let shmem = |n: u32| {
        let rss = 3_900_000 + 1000 * n;
        format!("VmRSS: {rss} kB\nRssAnon: 1900000 kB\nRssFile: 2000000 kB\nRssShmem: {n}000 kB\n")
    };
    let text: String = (0..STEPS).map(shmem).collect();
    let curve = only(&text);
    let anon = &curve.series["anon"];
    assert_eq!(anon[39] - anon[0], 39_000.0 * 1024.0);
}

#[test]
fn tables_have_file_pages_beside_too() {
    for names in ["step,rss_anon_kb,rss_file_kb", "step,RssAnon,RssFile"] {
        let rows: String = (0..STEPS).map(|n| format!("{n},1900000,{}\n", 2_000_000 + 1000 * n)).collect();
        let curve = only(&format!("{names}\n{rows}"));
        assert_eq!(curve.y[39], curve.y[0], "{names}");
        assert!(curve.series["file"][39] > curve.series["file"][0], "{names}");
    }
    let rows: String =
        (0..STEPS).map(|n| format!("{n},{},{}\n", 2_000_000 + 1000 * n, 3_900_000 + 1000 * n)).collect();
    let curve = only(&format!("step,RssFile,VmRSS\n{rows}"));
    assert_eq!(
        (curve.series["anon"][0], curve.y[0] > curve.series["file"][0]),
        (curve.series["anon"][39], true)
    );
}

#[test]
fn file_pages_alone_are_no_curve() {
    let log: String =
        (0..STEPS).map(|n| format!("step {n} RssFile: {} kB\n", 2_000_000 + 1000 * n)).collect();
    let table: String = (0..STEPS).map(|n| format!("{n},{}\n", 2_000_000 + 1000 * n)).collect();
    for text in [log, format!("step,rss_file_kb\n{table}")] {
        let why = refused(&text);
        assert!(why.contains("pages of files") && why.contains("VmRSS"), "{why}");
    }
}
