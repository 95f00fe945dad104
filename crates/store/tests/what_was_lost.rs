//! Curves that were lost on the way, so that a gate passed over a leak, and answers that were wrong.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]
#![allow(clippy::float_cmp, reason = "numbers that were written are read, not computed")]

mod text;

use lowtide_model::{Axis, Metric};
use lowtide_store::import::{Hints, left_out, parse};
use std::path::Path;
use text::{notes, of_text, only, refused};

fn rows(head: &str, count: u64, row: impl Fn(u64) -> String) -> String {
    head.to_owned() + &(0..count).map(|n| row(n) + "\n").collect::<String>()
}

#[test]
fn a_programs_own_cache_is_no_page_cache() {
    for names in [
        "memory_usage_mb,cache_mb",
        "cpu_memory_usage_mb,cache_mb",
        "memory_usage,cache_memory",
        "gpu_memory_usage_mb,cached_mb",
        "gpu_container_memory_usage_mb,cache_mb",
    ] {
        let text =
            rows(&format!("step,{names}\n"), 60, |n| format!("{n},{},{}", 5000 + 200 * n, 100 + 200 * n));
        let found = of_text(&text);
        assert!(found.iter().all(|curve| !curve.series.contains_key("anon")), "{names}");
    }
}

#[test]
fn page_cache_of_a_container_is_taken_out_and_said_so() {
    for names in [
        "pod,container_memory_usage_bytes,container_memory_cache",
        "pod,memory_usage_bytes,memory_cache_bytes",
        "name,container_memory_usage_mb,cache_mb",
        "host,memory.current,memory.stat.file",
    ] {
        let text =
            rows(&format!("time,{names}\n"), 60, |n| format!("{n},a,{},{}", 5000 + 200 * n, 100 + 200 * n));
        let curve = only(&text);
        assert!(curve.series["anon"].iter().all(|anon| *anon == curve.series["anon"][0]), "{names}");
        assert!(notes(&curve).contains("taken out"), "{names}: {:?}", curve.notes);
    }
}

#[test]
fn decimal_gigabytes_beside_a_share_of_the_processor_are_no_share() {
    for size in ["rss", "uss", "pss", "anon", "peak_rss"] {
        let head = format!("timestamp,cpu,{size},gpu_mem_mb\n");
        let found = of_text(&rows(&head, 60, |n| format!("{n},{},{}.2,20000", 50 + n % 7, 3 + n / 5)));
        let first = &found[0];
        assert!(found.len() == 2 && first.metric != Metric::Gpu, "{size}: {:?}", first.notes);
        assert!((first.y[59] - 14.2e9).abs() < 1e6, "{size}: {}", first.y[59]);
    }
}

#[test]
fn a_column_that_was_taken_for_a_share_is_said_to_be_left_out() {
    let text =
        rows("timestamp,cpu,mem,gpu_mem_mb\n", 60, |n| format!("{n},{},{}.2,20000", 50 + n % 7, 3 + n / 5));
    let curve = only(&text);
    assert_eq!(curve.metric, Metric::Gpu);
    assert!(left_out(&curve).is_some_and(|said| said.contains("`mem`")), "{:?}", curve.notes);
    assert!(
        refused(&rows("timestamp,cpu,mem\n", 60, |n| format!("{n},50,{}.2", 3 + n / 5))).contains("per cent")
    );
}

#[test]
fn what_torch_cached_is_what_it_reserved() {
    for names in [
        "gpu_memory_allocated_mb,gpu_memory_cached_mb",
        "torch.cuda.memory_allocated,torch.cuda.memory_cached",
        "cuda/memory_allocated_mb,cuda/memory_cached_mb",
    ] {
        let curve = only(&rows(&format!("step,{names}\n"), 60, |n| format!("{n},20000,{}", 21_000 + 80 * n)));
        assert_eq!(curve.metric, Metric::Gpu, "{names}");
        assert!(curve.series["reserved"][59] > curve.series["reserved"][0] * 1.2, "{names}");
    }
    let log = rows("", 60, |n| {
        format!(
            "step {n} torch.cuda.memory_cached {} MB torch.cuda.memory_allocated 20000 MB",
            21_000 + 80 * n
        )
    });
    assert!(only(&log).series.contains_key("reserved"));
    assert!(refused(&rows("step,memory_cache_mb\n", 60, |n| format!("{n},{}", 100 + n))).contains("memory"));
}

#[test]
fn a_number_with_a_name_of_its_own_is_no_time() {
    for name in ["bytes_in_use", "rss"] {
        let curve =
            only(&rows("", 60, |n| format!("step {n} {name} {} loss 2.5", 1_500_000_256 + n * 65_000)));
        assert_eq!((curve.y[0], curve.axis), (1_500_000_256.0, Axis::Step), "{name}");
    }
    for name in ["samples", "tokens", "consumed_samples:"] {
        let curve =
            only(&rows("", 60, |n| format!("{name} {} mem {} MB", 1_000_000_000 + n * 60_001, 3000 + n)));
        assert_eq!(curve.axis, Axis::Sample, "{name}: {:?}", curve.notes);
    }
}

#[test]
fn a_heading_with_a_large_number_hides_no_times() {
    for heading in
        ["model: 1500000000 params loaded", "Loading 1300000000 params from ckpt", "1500000000 params"]
    {
        let text = rows(&format!("{heading}\n"), 60, |n| {
            format!("put proc.rss {} {} host=a", 1_741_078_800 + 10 * n, 3_000_000_000 + 40_960_000 * n)
        });
        let curve = only(&text);
        assert_eq!((curve.x[59], curve.y[0], curve.axis), (590.0, 3e9, Axis::Seconds), "{heading}");
    }
    let text =
        rows("", 60, |n| format!("gpu01 {} rss {}", 1_741_078_800 + 10 * n, 3_000_000_000 + 40_960_000 * n));
    assert_eq!(only(&text).x[59], 590.0, "who writes is no name");
}

#[test]
fn cards_in_turn_are_as_many_as_make_the_smoothest_curves() {
    let of_last = |rounds: u64, more: &str| {
        let round = |n: u64| format!("22000 MiB\n20000 MiB\n{} MiB\n20000 MiB", 22_000 + 5 * n);
        of_text(&(rows("memory.used [MiB]\n", rounds, round) + more))
    };
    for more in ["", "22000 MiB\n", "22000 MiB\n20000 MiB\n23500 MiB\n"] {
        let found = of_last(300, more);
        let moved: Vec<f64> = found.iter().map(|curve| curve.y[curve.y.len() - 1] - curve.y[0]).collect();
        assert!(
            moved.len() == 4 && moved[2] == 1495.0 * 1_048_576.0 && moved[0] == 0.0,
            "{more:?}: {moved:?}"
        );
    }
    let two = of_text(&rows("memory.used [MiB]\n", 100, |n| {
        format!("{} MiB\n{} MiB", 20_000 + n * 7 % 13, 30_000 + n * 5 % 11)
    }));
    assert_eq!(two.len(), 2, "noise makes no more cards");
}

#[test]
fn a_line_of_atop_that_is_cut_hides_no_others() {
    let row = |n: u64| {
        let (time, pages) = (1_741_078_800 + 60 * n, 15_000_000 - 10_000 * n);
        let head = format!("MEM gpu01 {time} 2025/03/04 09:00:00 60 4096");
        if n == 30 { head } else { format!("{head} 32000000 {pages} 7000000 50000 100000 0 0\nSEP") }
    };
    let curve = only(&rows("", 60, row));
    assert_eq!((curve.y.len(), curve.metric.clone()), (59, Metric::Host), "{:?}", curve.notes);
}

/// Rows of a machine of which `used` holds the page cache, which grows with what is used.
fn machine(n: u64) -> [u64; 3] {
    let (need, cache) = (10_000_000, 2_000_000 + 200_000 * n);
    [need + cache, 65_000_000 - need - cache, cache]
}

#[test]
fn one_empty_cell_does_not_turn_page_cache_into_need() {
    for hole in [None, Some(7)] {
        let text = rows("time,used,free,buffers,cached\n", 60, |n| {
            let [used, free, cached] = machine(n);
            let cached = if hole == Some(n) { String::new() } else { cached.to_string() };
            format!("{},{used},{free},0,{cached}", 60 * n)
        });
        let curve = only(&text);
        assert!(curve.y.iter().all(|y| *y == 10_240_000_000.0), "{hole:?}: {:?}", curve.y);
    }
    let sar = rows("Linux 3.10\n\n09:00:01 kbmemfree kbmemused %memused kbbuffers kbcached\n", 60, |n| {
        let [used, free, cached] = machine(n);
        let free = if n == 7 { "-".to_owned() } else { free.to_string() };
        format!("09:{n:02}:00 {free} {used} 50 0 {cached}")
    });
    assert_eq!(only(&sar).y[59], 10_240_000_000.0);
}

#[test]
fn each_machine_of_a_table_has_its_own_page_cache() {
    let text = rows("time,host,used,free,cached\n", 60, |n| {
        let [used, free, cached] = machine(n);
        let time = 60 * n;
        format!(
            "{time},a,{used},{free},{cached}\n{time},b,{},{},{cached}",
            20_000_000 + n,
            100_000_000 - cached - n
        )
    });
    let found = of_text(&text);
    let last: Vec<f64> = found.iter().map(|curve| curve.y[59]).collect();
    assert_eq!(last, [10_240_000_000.0, 20_000_059.0 * 1024.0], "{:?}", found[0].notes);
}

#[test]
fn the_unit_that_is_asked_for_changes_only_the_unit() {
    let text = rows("time,used,free,cached\n", 60, |n| {
        let [used, free, cached] = machine(n);
        format!("{},{used},{free},{cached}", 60 * n)
    });
    let asked = |unit: Option<&str>| {
        let hints = Hints { unit: unit.map(str::to_owned), ..Hints::default() };
        parse(Path::new("x.csv"), text.as_bytes(), &hints).unwrap().remove(0)
    };
    assert_eq!(asked(None).y[59], 10_240_000_000.0);
    assert_eq!(asked(Some("KB")).y[59], 10_000_000_000.0);
    assert_eq!(asked(Some("KB")).y[0], asked(Some("KB")).y[59], "the page cache is no need");
}

#[test]
fn a_large_machine_told_in_megabytes_is_large() {
    let text = rows("time,total,used,free,shared,cache,available\n", 60, |n| {
        format!(
            "{},257000,{},{},100,45000,{}",
            60 * n,
            12_000 + 100 * n,
            200_000 - 100 * n,
            243_000 - 100 * n
        )
    });
    let curve = only(&text);
    assert_eq!(curve.y[59], 19_900.0 * 1_048_576.0);
    assert!(notes(&curve).contains("taken as MiB"), "{:?}", curve.notes);
    let small = rows("time,total,used,free,cached\n", 60, |n| {
        format!("{},8000000,3000000,{},1000000", 60 * n, 4_000_000 - n)
    });
    assert_eq!(only(&small).y[59], 3_000_000.0 * 1024.0);
    let bytes = rows("time,total,used,free,cached\n", 60, |n| {
        format!(
            "{},{},{},{},4096000",
            60 * n,
            2_000_000 * 4096_u64,
            1_000_000 * 4096_u64,
            (900_000 - n) * 4096
        )
    });
    assert_eq!(only(&bytes).y[59], 4_096_000_000.0);
}

#[test]
fn bytes_in_a_name_make_no_memory() {
    for name in ["bytes_processed", "bytes_seen", "bytes_loaded", "num_bytes_done"] {
        let text = rows(&format!("step,loss,{name}\n"), 60, |n| format!("{n},2.5,{}", 123_456_789 * (n + 1)));
        assert!(refused(&text).contains("no column is named after memory"), "{name}");
        let log = rows("", 60, |n| format!("step {n} loss 2.5 {name}={}", 123_456_789 * (n + 1)));
        assert!(refused(&log).contains("no memory curve"), "{name}");
    }
    for name in ["bytes_in_use", "heap_bytes_used", "mem_bytes_now", "rss_bytes_total_now"] {
        let text = rows(&format!("step,{name}\n"), 60, |n| format!("{n},{}", 1_000_001 + n));
        assert_eq!(only(&text).y[0], 1_000_001.0, "{name}");
    }
}

#[test]
fn the_memory_stats_of_torch_are_known_however_their_words_are_joined() {
    for joint in [".", "_", "/"] {
        let name = |stat: &str| ["cuda", stat].join("/").replace('.', joint);
        let names = [
            "allocated_bytes.all.current",
            "allocated_bytes.all.allocated",
            "allocated_bytes.all.peak",
            "reserved_bytes.all.current",
            "inactive_split_bytes.all.current",
            "allocated_bytes.small_pool.current",
        ]
        .map(name);
        let text = rows(&format!("step,{}\n", names.join(",")), 60, |n| {
            format!(
                "{n},20000000000,{},20000000000,21000000000,{},1",
                123_456_789_000 * (n + 1),
                1_000_000 * n
            )
        });
        let curve = only(&text);
        assert_eq!((curve.y[0], curve.y[59]), (2e10, 2e10), "{joint}: {:?}", curve.notes);
        assert_eq!(curve.series["reserved"][59], 2.1e10, "{joint}");
    }
}

#[test]
fn words_that_mean_something_else_hide_no_memory() {
    let metric =
        |name: &str| only(&rows(&format!("step,{name}\n"), 60, |n| format!("{n},{}", 2000 + n))).metric;
    assert_ne!(metric("dev_shm_mb"), Metric::Gpu);
    assert_eq!(metric("device_mem_mb"), Metric::Gpu);
    assert_eq!(metric("gpu_memory_utilization_mb"), Metric::Gpu);
    assert_eq!(metric("net_mem_gb"), Metric::Rss);
    assert!(
        refused(&rows("step,gpu_memory_utilization\n", 60, |n| format!("{n},{}", 40 + n % 9)))
            .contains("per cent")
    );
    assert!(refused(&rows("step,net_mb\n", 60, |n| format!("{n},{n}"))).contains("memory"));
    for names in ["process_memory_mb,process_memory_limit_mb", "process_mem_used_mb,process_mem_limit_mb"] {
        let curve = only(&rows(&format!("step,{names}\n"), 60, |n| format!("{n},{},8000", 2000 + n)));
        let limit = names.contains("used").then_some(8_000_000_000);
        assert_eq!(curve.context.limit.map(|limit| limit.0), limit, "{names}");
    }
}

/// A name, more labels, and the values.
type Series<'a> = (&'a str, &'a str, Vec<(u64, u64)>);

/// The answer of Prometheus that holds these series.
fn answer(series: &[Series<'_>]) -> String {
    let one = |(name, labels, values): &Series<'_>| {
        let values: Vec<String> = values.iter().map(|(at, value)| format!("[{at}, \"{value}\"]")).collect();
        format!(r#"{{"metric": {{"__name__": "{name}"{labels}}}, "values": [{}]}}"#, values.join(", "))
    };
    let series: Vec<String> = series.iter().map(one).collect();
    format!(r#"{{"status": "success", "data": {{"result": [{}]}}}}"#, series.join(", "))
}

fn minutes(count: u64, value: impl Fn(u64) -> u64) -> Vec<(u64, u64)> {
    (0..count).map(|n| (1_741_078_800 + 60 * n, value(n))).collect()
}

#[test]
fn free_memory_with_page_cache_is_not_said_to_lack_it() {
    let curve = only(&answer(&[
        ("node_memory_MemFree_bytes", "", minutes(60, |n| (40 - n / 2) << 30)),
        ("node_memory_Cached_bytes", "", minutes(60, |n| (10 + n / 2) << 30)),
        ("node_memory_MemTotal_bytes", "", minutes(60, |_| 64 << 30)),
    ]));
    assert_eq!(curve.y[59], curve.y[0]);
    assert!(notes(&curve).contains("counts as free"), "{:?}", curve.notes);
    assert!(!notes(&curve).contains("falls when files are read"), "{:?}", curve.notes);
}

#[test]
fn page_cache_that_lacks_a_point_is_still_page_cache() {
    let usage = || minutes(60, |n| 5_000_000_000 + 100_000_000 * n);
    let cache = || minutes(60, |n| 1_000_000_000 + 100_000_000 * n);
    let with = |cache: Vec<(u64, u64)>| {
        let labels = r#", "pod": "t-0""#;
        let series =
            [("container_memory_usage_bytes", labels, usage()), ("container_memory_cache", labels, cache)];
        only(&answer(&series))
    };
    for gone in [0, 30, 59] {
        let mut cache = cache();
        cache.remove(gone);
        let curve = with(cache);
        let anon: Vec<f64> = curve.series["anon"].iter().copied().filter(|anon| anon.is_finite()).collect();
        assert!(anon.len() >= 59 && anon[1..].iter().all(|anon| *anon - 4e9 <= 1e8), "{gone}: {anon:?}");
    }
    let curve = with(cache()[..20].to_vec());
    assert!(!curve.series.contains_key("anon"));
    assert!(notes(&curve).contains("told at other times"), "{:?}", curve.notes);
}

#[test]
fn the_limit_of_a_pod_is_found_among_thousands() {
    let pods: Vec<String> = (0..2000).map(|pod| format!(r#", "pod": "p-{pod}", "node": "n""#)).collect();
    let mut series = Vec::new();
    for (number, pod) in pods.iter().enumerate() {
        series.push(("container_memory_usage_bytes", pod.as_str(), minutes(3, |n| 1_000_000_000 + n)));
        let limit = 2_000_000_000 + number as u64;
        series.push(("container_spec_memory_limit_bytes", pod.as_str(), minutes(3, |_| limit)));
    }
    let found = of_text(&answer(&series));
    let limits: Vec<u64> = found.iter().filter_map(|curve| Some(curve.context.limit?.0)).collect();
    assert_eq!(limits, (0..2000).map(|pod| 2_000_000_000 + pod).collect::<Vec<u64>>());
}

#[test]
fn rows_of_free_may_have_a_time_before_them() {
    for before in ["2025-03-04 09:00:{} ", "09:00:{} ", "gpu01: "] {
        let text = rows("", 60, |n| {
            let before = before.replace("{}", &format!("{n:02}"));
            format!(
                "{before}Mem: 257000 {} {} 100 45000 {}",
                12_000 + 50 * n,
                200_000 - 50 * n,
                243_000 - 50 * n
            )
        });
        let curve = only(&text);
        assert_eq!((curve.metric.clone(), curve.y[59]), (Metric::Host, 16_950.0 * 1_048_576.0), "{before}");
    }
}

#[test]
fn records_within_records_are_found_behind_any_heading() {
    for heading in ["", "loading\n"] {
        let config = rows(heading, 40, |n| format!("{{\"config\": {n}}}"));
        let text = rows(&config, 60, |n| {
            format!(r#"{{"step": {n}, "mem": {{"gpu": {}}}}}"#, (200 + n) * 100_000_000)
        });
        let curve = only(&text);
        assert_eq!((curve.metric.clone(), curve.y[59]), (Metric::Gpu, 25.9e9), "{heading:?}");
    }
}

#[test]
fn the_machines_memory_is_judged_beside_a_card_whichever_comes_first() {
    for names in ["sys.gpu.0.used_memory,sys.ram.used", "sys.ram.used,sys.gpu.0.used_memory"] {
        let text = rows(&format!("step,{names}\n"), 60, |n| {
            let (card, ram) = (20_000_000_000_u64, 30_000_000_000 + 100_000_000 * n);
            if names.starts_with("sys.gpu") {
                format!("{n},{card},{ram}")
            } else {
                format!("{n},{ram},{card}")
            }
        });
        let found = of_text(&text);
        let metrics: Vec<&Metric> = found.iter().map(|curve| &curve.metric).collect();
        assert_eq!(metrics, [&Metric::Host, &Metric::Gpu], "{names}");
    }
}

#[test]
fn a_unit_in_brackets_counts_wherever_it_stands() {
    for (name, unit) in [
        ("host/memory_used (GiB)/mean", 1_073_741_824.0),
        ("cuda:0/memory_used (MiB)/mean", 1_048_576.0),
        ("mem [kB] now", 1e3),
    ] {
        let curve = only(&rows(&format!("step,{name}\n"), 60, |n| format!("{n},{}.5", 30 + n)));
        assert_eq!(curve.y[0], 30.5 * unit, "{name}");
    }
    let rocm = rows("timestamp,device,VRAM Total Memory (B),VRAM Total Used Memory (B)\n", 60, |n| {
        let time = 1_741_078_800 + 5 * n;
        format!(
            "{time},card0,68702699520,20000000000\n{time},card1,68702699520,{}",
            20_000_000_000 + 50_000_000 * n
        )
    });
    let found = of_text(&rocm);
    let last: Vec<f64> = found.iter().map(|curve| curve.y[59]).collect();
    assert_eq!((last, found[0].metric.clone()), (vec![2e10, 22.95e9], Metric::Gpu));
}

#[test]
fn what_a_program_writes_over_its_table_hides_no_names() {
    let head = "\"Dstat 0.7.4 CSV output\"\n\"Author:\",\"Dag Wieers\",,,,\"URL:\",\"http://dag.wieers.com\"\n\
                \"system\",\"memory usage\",,,,\"total cpu usage\",\n\
                \"time\",\"used\",\"free\",\"buff\",\"cach\",\"usr\",\"sys\"\n";
    let text = rows(head, 60, |n| {
        let (used, free) = (12_000_000_000 + 200_000_000 * n, 40_000_000_000 - 300_000_000 * n);
        format!(
            "\"04-03 09:00:{n:02}\",{used}.0,{free}.0,100000000.0,{}.0,50.0,3.0",
            10_000_000_000 + 100_000_000 * n
        )
    });
    let curve = only(&text);
    assert_eq!((curve.metric.clone(), curve.y[59] - curve.y[0]), (Metric::Host, 11.8e9), "{:?}", curve.notes);
}

#[test]
fn a_table_of_many_runs_costs_no_more_than_its_cells() {
    let columns = |row: &dyn Fn(usize) -> String| (0..1000).map(row).collect::<Vec<_>>().join(",");
    let names = columns(&|run| format!("run-{run} - gpu_mem_current_mb,run-{run} - gpu_mem_peak_mb"));
    let text = rows(&format!("step,{names}\n"), 5, |n| format!("{n},{}", columns(&|_| format!("{n},{n}"))));
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(of_text(&text).len()));
    // Each held against each it took more than a minute, without optimisation.
    assert_eq!(done.recv_timeout(std::time::Duration::from_secs(40)), Ok(1000));
}

#[test]
fn the_heap_of_a_process_is_judged_beside_cards() {
    for heap in ["heap_used_mb", "traced_mb", "used_mb", "memUsed", "phys_footprint", "WorkingSet64"] {
        let text =
            rows(&format!("step,gpu_mem_mb,{heap}\n"), 60, |n| format!("{n},20000,{}", 3000 + 100 * n));
        let found = of_text(&text);
        let grows: Vec<bool> = found.iter().map(|curve| curve.y[59] > curve.y[0]).collect();
        assert!(grows.len() == 2 && grows.contains(&true), "{heap}: {grows:?}");
        assert!(found.iter().all(|curve| curve.metric != Metric::Gpu || curve.series.is_empty()), "{heap}");
    }
    let log = rows("", 60, |n| format!("step {n} gpu_mem 20000 MB heap_used {} MB", 3000 + 100 * n));
    assert_eq!(of_text(&log).len(), 2);
    let part = only(&rows("step,rss_mb,heap_used_mb\n", 60, |n| format!("{n},{},{}", 9000 + n, 3000 + n)));
    assert!(part.series.contains_key("heap_used"), "beside the process it is a part of it");
}

#[test]
fn sizes_that_are_not_judged_are_named() {
    for name in ["buffer_mb", "replay_buffer_gb", "vms_mb", "mem_cached", "used"] {
        let text = rows(&format!("step,rss_mb,{name}\n"), 60, |n| format!("{n},9000,{}", 3_000_000 + n));
        let curve = only(&text);
        assert!(left_out(&curve).is_some_and(|note| note.contains(name)), "{name}: {:?}", curve.notes);
    }
    let text = rows("step,rss_mb,read_mb,net_mb\n", 60, |n| format!("{n},9000,{n},{n}"));
    assert_eq!(left_out(&only(&text)), None, "what counts is no memory");
}

#[test]
fn a_log_tells_of_sums_and_of_what_it_does_not_judge() {
    let text = |name: &str| {
        rows("", 60, |n| format!(r#"{{"step": {n}, "rss_mb": 9000, "{name}": {}}}"#, 10_000 + 100 * n))
    };
    let found = of_text(&text("tree_total_mb"));
    assert_eq!(found.iter().map(|curve| curve.y[59] - curve.y[0]).fold(0.0, f64::max), 5.9e9);
    assert_eq!(
        of_text(&rows("", 60, |n| format!("step {n} mem_used_total=64000MB mem_used={}MB", 20_000 + n)))
            .len(),
        1
    );
    for name in ["swap_mb", "replay_buffer_mb"] {
        let curve = only(&text(name));
        assert!(left_out(&curve).is_some_and(|note| note.contains(name)), "{name}: {:?}", curve.notes);
    }
    for name in ["read_mb", "mem_delta_mb", "mem_total_mb"] {
        assert_eq!(left_out(&only(&text(name))), None, "{name}");
    }
    let log = rows("", 60, |n| {
        format!(r#"{{"step": {n}, "gpu_mem_mb": 20000, "memUsed": {}}}"#, 3_000_000 + 100_000 * n)
    });
    assert_eq!(of_text(&log).len(), 2);
}
