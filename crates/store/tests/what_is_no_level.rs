//! Foreign files whose numbers are easily taken for memory in use: what is free, what is a rate, what was cut off.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]
#![allow(clippy::float_cmp, reason = "numbers that were written are read, not computed")]

mod text;

use lowtide_model::{Axis, Bytes, Metric};
use lowtide_store::import::{Hints, parse};
use std::path::Path;
use text::{notes, of_text, only, refused};

/// A line for each number below `count`.
fn lines(count: u32, line: impl Fn(u32) -> String) -> String {
    (0..count).map(|n| line(n) + "\n").collect()
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

#[test]
fn what_is_left_is_turned_round_whatever_it_is_called() {
    for (line, unit) in [
        ("MemAvailable:   {n} kB", KIB),
        ("MemFree:        {n} kB", KIB),
        ("09:12:30 MemAvailable={n}000", 1000.0 * KIB),
        ("step 7 | RAM remaining: {n} MB", 1e6),
        ("step 7: {n} MB left", 1e6),
        ("step 7: GPU mem: {n} MB free", 1e6),
    ] {
        let curve = only(&lines(40, |n| line.replace("{n}", &(60_000 - 50 * n).to_string())));
        assert_eq!((curve.y[0], curve.y[39], curve.no_level), (0.0, 39.0 * 50.0 * unit, true), "{line}");
    }
}

#[test]
fn what_is_used_keeps_its_place_beside_what_is_left() {
    for line in [
        "step 7: used {n} MB free 60000 MB",
        "step 7: {n} MB used, 60000 MB free",
        "mem {n} MB, free: 60000 MB",
    ] {
        let curve = only(&lines(40, |n| line.replace("{n}", &(2000 + n).to_string())));
        assert_eq!((curve.y[0], curve.no_level), (2e9, false), "{line}");
    }
}

#[test]
fn the_total_that_is_told_beside_what_is_free_gives_the_level() {
    for line in [
        "step 7 cuda.mem_get_info: ({n}000000, 80000000000)",
        "step 7 gpu free {n} MB, gpu total 80000 MB",
        "step 7 | free/total: {n}/80000 MB",
    ] {
        let curve = only(&lines(40, |n| line.replace("{n}", &(60_000 - 50 * n).to_string())));
        assert_eq!((curve.y[0], curve.y[39], curve.no_level), (20e9, 20e9 + 39.0 * 50e6, false), "{line}");
        assert_eq!(curve.context.limit, Some(Bytes(80_000_000_000)), "{line}");
    }
}

#[test]
fn free_memory_in_a_table_is_turned_round() {
    let table = |head: &str, cells: &str| {
        let row = |n: u32| format!("{n},{}", cells.replace("{n}", &(60_000 - 50 * n).to_string()));
        format!("{head}\n{}", lines(40, row))
    };
    let alone = only(&table("step,mem_available_mb", "{n}"));
    assert_eq!((alone.y[0], alone.y[39], alone.no_level), (0.0, 39.0 * 50e6, true));
    assert_eq!(alone.metric, Metric::Host);
    for (head, cells, unit) in [
        ("step,memory.free [MiB],memory.total [MiB]", "{n} MiB,80000 MiB", MIB),
        ("step,gpu_free_mb,gpu_total_mb", "{n},80000", 1e6),
        ("step,mem_total_mb,mem_available_mb,mem_free_mb", "80000,{n},9", 1e6),
    ] {
        let curve = only(&table(head, cells));
        assert_eq!((curve.y[0], curve.y[39]), (20_000.0 * unit, 21_950.0 * unit), "{head}");
        assert_eq!((curve.no_level, curve.context.limit.is_some()), (false, true), "{head}");
    }
    let text = table("step,rss_mb,mem_free_mb", "2000,{n}");
    assert_eq!(only(&text).y[39], 2e9, "what is held comes first");
    let hints = Hints { y: Some("mem_free_mb".to_owned()), ..Hints::default() };
    let asked = parse(Path::new("x.csv"), text.as_bytes(), &hints).unwrap();
    assert_eq!((asked[0].y[0], asked[0].y[39]), (0.0, 39.0 * 50e6));
    assert!(refused(&table("step,memory.total [MiB]", "80000 MiB")).contains("all the memory that there is"));
}

#[test]
fn every_kilobyte_of_the_kernel_is_binary() {
    for name in ["AnonPages", "Rss", "VmRSS", "RssAnon", "Private_Dirty"] {
        let curve = only(&lines(9, |n| format!("{name}:   {} kB", 4_000_000 + n)));
        assert_eq!(curve.y[0], 4e6 * KIB, "{name}");
    }
    assert_eq!(
        only(&lines(9, |n| format!("step {n} rss {} kB", 4_000_000 + n))).y[0],
        4e9,
        "no kernel wrote it"
    );
}

#[test]
fn a_table_in_one_json_document_is_read_whole() {
    let all = |form: &dyn Fn(u32) -> String| (0..12).map(form).collect::<Vec<_>>().join(", ");
    let steps = all(&|n| (5 * n).to_string());
    let rss = all(&|n| (2000 + n).to_string());
    let by_row = |what: fn(u32) -> u32| all(&move |n| format!("\"{n}\": {}", what(n)));
    let record = all(&|n| format!(r#"{{"step": {}, "mem": {{"rss_mb": {}}}, "tags": []}}"#, 5 * n, 2000 + n));
    for text in [
        format!("[{record}]"),
        format!("[{}]", record.replace("}, {", "},\n{")),
        format!(r#"{{"name": "a", "log_history": [{record}]}}"#),
        format!(r#"{{"step": [{steps}], "rss_mb": [{rss}], "args": [1, 2]}}"#),
        format!(r#"{{"args": {{"betas": [1, 2]}}, "run": {{"step": [{steps}], "rss_mb": [{rss}]}}}}"#),
        format!(r#"{{"step": {{{}}}, "rss_mb": {{{}}}}}"#, by_row(|n| 5 * n), by_row(|n| 2000 + n)),
        format!(
            r#"{{"columns": ["step", "rss_mb"], "data": [{}]}}"#,
            all(&|n| format!("[{}, {}]", 5 * n, 2000 + n))
        ),
    ] {
        let curve = only(&text);
        assert_eq!((curve.x.len(), curve.x[11], curve.y[11]), (12, 55.0, 2011e6), "{text:.60}");
    }
    assert!(
        refused(&format!("[{}]", record.replace("mem", "loss").replace("rss_mb", "mean")))
            .contains("no column is named after memory")
    );
}

#[test]
fn a_last_line_that_was_cut_off_is_left_out_and_a_whole_one_is_kept() {
    let rows = format!("step,rss_mb\n{}", lines(40, |n| format!("{n},{}", 5500 + n)));
    let log = lines(40, |n| format!("step {n} rss {} MB", 5500 + n));
    for text in [format!("{rows}40,55"), format!("{log}step 40 rss 55"), format!("{log}step 40 rss 5540 M")] {
        let curve = only(&text);
        assert_eq!((curve.y.len(), curve.y[39]), (40, 5539e6), "{}", notes(&curve));
        assert!(notes(&curve).contains("ends within its last line"), "{}", notes(&curve));
    }
    for text in [format!("{rows}40,5540"), format!("{log}step 40 rss 5540 MB"), format!("{rows}40,55\n")] {
        assert_eq!(only(&text).y.len(), 41, "{}", &text[text.len() - 20..]);
    }
}

#[test]
fn alloc_beside_reserved_is_what_tensors_hold_of_the_gpu() {
    let short =
        lines(40, |n| format!("step {n} alloc=12.34GB reserved={}MB max_alloc=15.2GB", 16_000 + 50 * n));
    let table = lines(40, |n| format!("{n},12340,{}", 16_000 + 50 * n));
    for text in [short, format!("step,alloc_mb,reserved_mb\n{table}")] {
        let curve = only(&text);
        assert_eq!((&curve.metric, curve.y[39]), (&Metric::Gpu, 12.34e9));
        assert_eq!(curve.series["reserved"][39], 17_950e6);
    }
}

#[test]
fn rates_changes_and_files_are_no_memory() {
    for line in [
        "step {n} loss 0.3 throughput {m} MB/s",
        "step {n} loss 0.3 io 30{n} MB/s",
        "step {n} mem_delta={m}MB",
        "step {n} memory growth: {m} MB",
        "step {n} Saved checkpoint ckpt-0.pt (1.3{n} GB)",
        "Downloading shard {n}: 512MB / 4.1GB, 35.2MB/s",
        "model.bin: 45%|####     | 1.{n}G/2.6G [00:12<00:13, 98.0MB/s]",
        "step {n} checkpoint size: {m} MB",
        "step {n} disk used: {m} MB",
        "step {n} disk: {m} MB free",
        "step {n} downloading, {m} MB left",
        "step {n} mem {m} MB/step",
    ] {
        let text = lines(40, |n| line.replace("{n}", &n.to_string()).replace("{m}", &(300 + n).to_string()));
        assert!(refused(&text).contains("a training log"), "{line}");
    }
    assert!(
        refused(&format!("step,mem_delta_mb\n{}", lines(9, |n| format!("{n},5"))))
            .contains("named after memory")
    );
}

#[test]
fn plain_sizes_stay_memory_beside_words_of_files() {
    for line in [
        "Step {n}:  {m} MB  (baseline)",
        "step {n} after saving: {m} MB",
        "step {n} saved activations: {m} MB",
        "step {n} read 512 MB from shard, rss {m} MB",
        "step {n} 98 MB/s mem {m} MB",
        "step {n} heap size {m} MB",
        "Step {n} (checkpoint): {m} MB",
        "step {n} | saved 12 MB | {m} MB",
    ] {
        let text = lines(40, |n| line.replace("{n}", &n.to_string()).replace("{m}", &(5000 + n).to_string()));
        assert_eq!(only(&text).y[39], 5039e6, "{line}");
    }
}

#[test]
fn a_clock_that_was_put_back_does_not_fold_the_curve() {
    // From 01:00 to 03:00, and an hour back at half time.
    let minute = |n: u32| if n < 120 { 60 + n } else { n };
    let day = |n: u32| format!("2025-10-26 {:02}:{:02}:00", minute(n) / 60, minute(n) % 60);
    let log = lines(240, |n| format!("{} INFO mem {} MB", day(n), 4000 + n));
    let table = lines(240, |n| format!("{},{}", day(n), 4000 + n));
    let since_1970 = lines(240, |n| format!("{},{}", 1_741_079_550 + 60 * minute(n), 4000 + n));
    for text in [log, format!("time,rss_mb\n{table}"), format!("ts,rss_mb\n{since_1970}")] {
        let curve = only(&text);
        assert_eq!(
            (curve.axis, curve.x[119], curve.x[120], curve.x[239]),
            (Axis::Seconds, 7140.0, 7200.0, 14_340.0)
        );
        assert!(notes(&curve).contains("the clock was put back by 3600 s"), "{}", notes(&curve));
    }
}

#[test]
fn times_in_other_forms_are_times() {
    let hours = lines(200, |n| format!("{:02}:{:02}:00,{}", n / 4, n % 4 * 15, 4000 + n));
    let american = lines(200, |n| {
        let (hour, half) = [("9", "AM"), ("10", "AM"), ("11", "AM"), ("12", "PM")][n as usize / 60];
        format!("3/4/2025 {hour}:{:02} {half},{}", n % 60, 4000 + n)
    });
    let dmesg = lines(200, |n| format!("[{:5}.500] RSS={}M", 2 * n, 4000 + n));
    let seconds = lines(200, |n| format!("[{}s] current={}MB; peak=9000MB", 30 * n, 4000 + n));
    for (text, last) in [
        (format!("elapsed,rss_mb\n{hours}"), 199.0 * 900.0),
        (format!("date,rss_mb\n{american}"), 199.0 * 60.0),
        (dmesg, 398.5),
        (seconds, 5970.0),
    ] {
        let curve = only(&text);
        assert_eq!((curve.axis, curve.x[199]), (Axis::Seconds, last), "{}", notes(&curve));
    }
}

#[test]
fn a_run_that_was_appended_with_its_heading_is_a_run_of_its_own() {
    let run = |from: u32| format!("step,rss_mb\n{}", lines(50, |n| format!("{n},{}", from + n)));
    let found = of_text(&(run(4000) + &run(4050)));
    assert_eq!(found.len(), 2, "{:?}", found.iter().map(|curve| &curve.name).collect::<Vec<_>>());
    assert_eq!((found[0].y[49], found[1].x[0], found[1].y[0]), (4049e6, 0.0, 4050e6));
    assert!(notes(&found[1]).contains("a run of its own"), "{}", notes(&found[1]));
    let loop_of_one = lines(50, |n| format!("time,rss_mb\n12:00:{n:02},{}", 4000 + n));
    assert_eq!(only(&loop_of_one).y.len(), 50, "names with each row cut nothing");
}

#[test]
fn dumps_of_meminfo_are_the_machine_with_its_total() {
    let dump = |n: u32| {
        format!(
            "MemTotal:       64000000 kB\nMemFree:         1000 kB\nMemAvailable:   {} kB\nCached:  7 kB\nHugePages_Total:       0",
            60_000_000 - 1000 * n
        )
    };
    let plain = only(&lines(40, dump));
    let timed = only(&lines(40, |n| format!("=== 2025-03-04T09:00:{n:02}\n{}", dump(n))));
    for curve in [&plain, &timed] {
        assert_eq!((&curve.metric, curve.y[39]), (&Metric::Host, 4_039_000.0 * KIB));
        assert_eq!(curve.context.limit, Some(Bytes(64_000_000 * 1024)));
    }
    assert_eq!((plain.axis, timed.axis, timed.x[39]), (Axis::Sample, Axis::Seconds, 39.0));
}

#[test]
fn a_time_above_what_a_loop_prints_is_its_time() {
    let status = |n: u32| format!("09:00:{n:02}\nVmPeak: 9000000 kB\nVmRSS: {} kB", 4_000_000 + n);
    let anon = |n: u32| format!("2025-03-04T09:00:{n:02}\nAnonPages:   {} kB", 4_000_000 + n);
    for text in [lines(40, status), lines(40, anon)] {
        let curve = only(&text);
        assert_eq!((curve.axis, curve.x[39], curve.y[39]), (Axis::Seconds, 39.0, 4_000_039.0 * KIB));
    }
    let seldom =
        only(&lines(4, |h| format!("began 09:00:{h:02}\n{}", lines(20, |n| format!("mem {} MB", 4000 + n)))));
    assert_eq!(
        (seldom.axis, seldom.x[79]),
        (Axis::Sample, 79.0),
        "a time above many lines is not that of each"
    );
}

#[test]
fn dmon_and_pmon_tell_the_memory_of_cards_and_processes() {
    let dmon = "# gpu     fb   bar1   ccpm\n# Idx     MB     MB     MB\n".to_owned();
    let two = dmon + &lines(40, |n| format!("    0   {}     24      0\n    1   900     24      0", 2000 + n));
    let found = of_text(&two);
    assert_eq!(
        found.iter().map(|curve| (curve.name.as_str(), curve.y[39])).collect::<Vec<_>>(),
        [("x: GPU 0", 2039.0 * MIB), ("x: GPU 1", 900.0 * MIB)]
    );
    let pmon =
        "#Time        gpu        pid  type    fb   command\n#HH:MM:SS    Idx          #   C/G    MB   name\n";
    let one =
        only(&(pmon.to_owned() + &lines(40, |n| format!(" 09:12:{n:02} 0 41234 C {} python", 8000 + n))));
    assert_eq!(
        (one.axis, one.x[39], one.y[39], &one.metric),
        (Axis::Seconds, 39.0, 8039.0 * MIB, &Metric::Gpu)
    );
    let shares =
        "# gpu    sm   mem\n# Idx     %     %\n".to_owned() + &lines(40, |_| "    0   50   30".to_owned());
    assert!(refused(&shares).contains("how busy the memory of a card is"));
}

#[test]
fn what_trainers_print_around_numbers_and_names_is_read() {
    let numpy = lines(40, |n| format!("{{'epoch': 0.{n:02}, 'cpu_mem_gb': np.float64(4.{n:02})}}"));
    let tensor = lines(40, |n| format!("step {n} mem tensor(4.{n:02}) GB"));
    for text in [numpy, tensor] {
        assert_eq!(only(&text).y[39], 4.39e9);
    }
    let kin = lines(40, |n| {
        format!(
            "{{'memory/max_mem_active(gib)': 2.1, 'memory/max_mem_allocated(gib)': 2.1, 'memory/device_mem_reserved(gib)': {n}, 'epoch': 0.{n:02}}}"
        )
    });
    let table = lines(40, |n| format!("{n},2.1,{n}"));
    for text in [kin, format!("step,memory/max_allocated (GiB),memory/device_reserved (GiB)\n{table}")] {
        let curve = only(&text);
        assert_eq!((&curve.metric, curve.y[39]), (&Metric::Gpu, 2.1 * 1024.0 * MIB));
        assert_eq!(
            curve.series["reserved"][39],
            39.0 * 1024.0 * MIB,
            "beside the highest that was allocated"
        );
    }
}
