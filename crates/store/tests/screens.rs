//! Screens and exports that were read wrongly once, and told with confidence.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]
#![allow(clippy::float_cmp, reason = "numbers that were written are read, not computed")]

mod text;

use lowtide_model::{Axis, Bytes, Curve, Metric};
use lowtide_store::import::{Hints, parse};
use proptest::prelude::*;
use std::path::Path;
use text::{of_text, only, refused};

const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1024.0 * MIB;

fn lines(count: u32, line: impl Fn(u32) -> String) -> String {
    (0..count).map(|n| line(n) + "\n").collect()
}

/// Each curve by its name, with how far it moved.
fn moves(curves: &[Curve]) -> Vec<(&str, f64)> {
    curves.iter().map(|c| (c.name.as_str(), c.y[c.y.len() - 1] - c.y[0])).collect()
}

#[test]
fn free_is_read_by_its_columns_and_in_its_language() {
    let wide = only(&lines(30, |n| {
        format!(
            "               total        used        free      shared     buffers       cache   available\n\
             Mem:           64000        {}       50000         100         200        9000       {}",
            2000 + n,
            60_000 - 10 * n
        )
    }));
    assert_eq!(wide.y[29], 4290.0 * MIB, "total minus available");
    let old = only(&lines(30, |n| {
        format!(
            "             total       used       free     shared    buffers     cached\n\
             Mem:         64000      {}      20000          0       1000      30000\n\
             -/+ buffers/cache:      {}      51000",
            44_000 + 10 * n,
            13_000 + 10 * n
        )
    }));
    assert_eq!(old.y[29], 13_290.0 * MIB, "used without buffers and cached");
    let german = only(&lines(30, |n| {
        format!(
            "               gesamt       benutzt     frei      gemns.  Puffer/Cache verfügbar\n\
             Speicher:       62Gi       2,{n:02}Gi       40Gi       1,0Gi        10Gi        50Gi\n\
             Swap:          2,0Gi          0B       2,0Gi"
        )
    }));
    assert_eq!((german.metric.clone(), german.y[29]), (Metric::Host, 2.29 * GIB));
}

#[test]
fn every_pod_of_kubectl_top_is_a_curve() {
    let rows = |n: u32| {
        format!(
            "NAME      CPU(cores)   MEMORY(bytes)\ntrain-0   3990m        {}Mi\ntrain-1   3990m        2000Mi",
            2000 + n
        )
    };
    let pods = of_text(&lines(30, rows));
    assert_eq!(moves(&pods), [("x: train-0", 29.0 * MIB), ("x: train-1", 0.0)]);
    let timed = of_text(&lines(30, |n| format!("2026-03-01T12:00:{n:02}Z\n{}", rows(n))));
    assert_eq!((timed[0].axis, timed[0].x[29]), (Axis::Seconds, 29.0));
    let spaced = of_text(&lines(30, |n| {
        format!("NAMESPACE   NAME   CPU(cores)   MEMORY(bytes)\nml a 1m {n}Mi\nml b 1m 9Mi")
    }));
    assert_eq!(moves(&spaced), [("x: ml a", 29.0 * MIB), ("x: ml b", 0.0)]);
    let cgtop = of_text(&lines(30, |n| {
        format!(
            "Control Group                 Tasks   %CPU   Memory  Input/s Output/s\n\
             /user.slice/a.service            42   99.1     {}.0M        -        -\n\
             /user.slice/b.service            42   99.1     2.0G        -        -",
            2000 + n
        )
    }));
    assert_eq!(moves(&cgtop), [("x: /user.slice/a.service", 29.0 * MIB), ("x: /user.slice/b.service", 0.0)]);
}

#[test]
fn every_card_on_the_screen_of_nvidia_smi_is_a_curve() {
    let card = |card: u32, mib: u32| {
        format!(
            "|   {card}  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    0 |\n\
             | N/A   35C    P0              61W / 400W |  {mib}MiB / 81920MiB |     99%      Default |\n\
             +-----------------------------------------+----------------------+----------------------+"
        )
    };
    let screen = |n: u32| {
        format!(
            "Sun Mar  1 12:00:{n:02} 2026\n{}\n{}\n|    0   N/A  N/A      4711      C   python   19000MiB |",
            card(0, 20_000),
            card(1, 20_000 + n)
        )
    };
    let found = of_text(&lines(30, screen));
    assert_eq!(moves(&found), [("x: GPU 0", 0.0), ("x: GPU 1", 29.0 * MIB)]);
    assert_eq!(
        (found[1].axis, found[1].x[29], found[1].context.limit),
        (Axis::Seconds, 29.0, Some(Bytes(80 << 30)))
    );
}

#[test]
fn every_container_of_docker_in_json_is_a_curve() {
    let row = |name: &str, mib: u32| {
        format!(r#"{{"CPUPerc":"99%","MemUsage":"{mib}MiB / 16GiB","Name":"{name}","PIDs":"42"}}"#)
    };
    let found = of_text(&lines(30, |n| format!("{}\n{}", row("a", 2000 + n), row("b", 2000))));
    assert_eq!(moves(&found), [("x: a", 29.0 * MIB), ("x: b", 0.0)]);
    assert_eq!(found[0].context.limit, Some(Bytes(16 << 30)));
}

#[test]
fn the_counts_of_vmstat_and_statm_are_told_apart() {
    let vmstat = only(&format!(
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n \
         r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n{}",
        lines(30, |n| format!(
            " 1  0      0 {} 200000 {}    0    0     0     0  100  200 50  1 49  0  0",
            60_000_000 - 3000 * n,
            9_000_000 + 1000 * n
        ))
    ));
    assert_eq!((vmstat.y[29], vmstat.no_level), (29.0 * 2000.0 * 1024.0, true));
    let statm = |before: fn(u32) -> String| {
        only(&lines(30, |n| format!("{}2500000 {} 30000 1 0 600000 0", before(n), 512_000 + n)))
    };
    assert_eq!(
        (statm(|_| String::new()).y[29], statm(|_| String::new()).axis),
        (512_029.0 * 4096.0, Axis::Sample)
    );
    let timed = statm(|n| format!("{} ", 1_772_366_400 + 5 * n));
    assert_eq!((timed.axis, timed.x[29], timed.y[0]), (Axis::Seconds, 145.0, 512_000.0 * 4096.0));
}

#[test]
fn columns_without_names_are_guessed_only_where_one_is_left() {
    let text = lines(30, |n| format!("{},{},{}", n, 5, 2000 + n));
    assert!(refused(&text).contains("3 columns without names"), "{}", refused(&text));
    let two = only(&lines(30, |n| format!("{} {}", 1_772_366_400 + 5 * n, 2_097_152_000 + 4096 * n)));
    assert_eq!((two.axis, two.x[29], two.y[29]), (Axis::Seconds, 145.0, 2_097_270_784.0));
}

#[test]
fn a_newest_row_that_stands_first_is_the_last() {
    for (text, name) in [
        (lines(30, |n| format!("2026-03-01T12:00:{:02},{}", 29 - n, 2029 - n)), "time,rss_mb\n"),
        (lines(30, |n| format!("{},{}", 1_772_366_429 - n, 2029 - n)), "timestamp,rss_mb\n"),
        (lines(30, |n| format!("2026-03-01 12:00:{:02} INFO rss {} MB", 29 - n, 2029 - n)), ""),
        (lines(30, |n| format!("12:00:{:02} rss {} MB", 29 - n, 2029 - n)), ""),
    ] {
        let curve = only(&format!("{name}{text}"));
        assert_eq!(
            (curve.axis, curve.x[29], curve.y[0], curve.y[29]),
            (Axis::Seconds, 29.0, 2e9, 2029e6),
            "{text:.60}"
        );
    }
}

#[test]
fn cards_and_hosts_in_one_table_are_parted() {
    let rows = lines(60, |n| {
        format!("2026/03/01 12:00:{:02}.123, {}, {} MiB, 81920 MiB", n / 2, n % 2, 20_000 + (n % 2) * n)
    });
    let cards = of_text(&format!("timestamp, index, memory.used [MiB], memory.total [MiB]\n{rows}"));
    assert_eq!(moves(&cards), [("x: index 0", 0.0), ("x: index 1", 58.0 * MIB)]);
    let rows = lines(120, |n| {
        format!("{},{},{},{}", n / 4, ["a", "b"][n as usize % 2], n / 2 % 2, 2000 + 100 * (n % 4))
    });
    let hosts = of_text(&format!("step,host,gpu,gpu_mem_mb\n{rows}"));
    let told: Vec<_> = hosts.iter().map(|c| (c.name.as_str(), c.y[29])).collect();
    assert_eq!(
        told,
        [
            ("x: host a, gpu 0", 2e9),
            ("x: host a, gpu 1", 2200e6),
            ("x: host b, gpu 0", 2100e6),
            ("x: host b, gpu 1", 2300e6)
        ]
    );
}

#[test]
fn every_card_that_a_line_names_is_a_curve() {
    for line in ["GPU0: {a}GB GPU1: 20.00GB", "gpu0={a}GB gpu1=20.00GB", "cuda0 {a} GB | cuda1 20.00 GB"] {
        let found =
            of_text(&lines(30, |n| format!("step {n} | {}", line.replace("{a}", &format!("20.{n:02}")))));
        assert_eq!(found.len(), 2, "{line}");
        assert!(found.iter().all(|curve| curve.metric == Metric::Gpu && curve.x[29] == 29.0), "{found:?}");
        assert_eq!(found.iter().filter(|curve| curve.y[29] > curve.y[0]).count(), 1, "{line}");
    }
}

#[test]
fn what_no_job_holds_is_no_curve_of_prometheus() {
    let series = |name: &str, step: f64| {
        let values: Vec<String> =
            (0..30).map(|n| format!("[{}, \"{}\"]", 15 * n, f64::from(n).mul_add(step, 20_000.0))).collect();
        format!(r#"{{"metric": {{"__name__": "{name}", "gpu": "0"}}, "values": [{}]}}"#, values.join(","))
    };
    let answer = |names: &[(&str, f64)]| {
        let all: Vec<String> = names.iter().map(|(name, step)| series(name, *step)).collect();
        format!(r#"{{"status": "success", "data": {{"result": [{}]}}}}"#, all.join(","))
    };
    let used = ("DCGM_FI_DEV_FB_USED", 40.0);
    let free = ("DCGM_FI_DEV_FB_FREE", -40.0);
    let beside = [
        used,
        free,
        ("DCGM_FI_DEV_MEM_COPY_UTIL", 1.0),
        ("DCGM_FI_DEV_MEM_CLOCK", 0.0),
        ("container_memory_cache", 9.0),
        ("container_memory_failcnt", 1.0),
        ("node_memory_Cached_bytes", 1.0),
    ];
    let card = only(&answer(&beside));
    assert_eq!((card.metric.clone(), card.y[29] - card.y[0]), (Metric::Gpu, 29.0 * 40.0 * MIB));
    let alone = only(&answer(&[free]));
    assert_eq!((alone.y[29], alone.no_level), (29.0 * 40.0 * MIB, true), "what is free in MiB, turned round");
    let asked = only(&answer(&[("container_memory_cache", 9.0)]));
    assert_eq!(asked.y[0], 20_000.0, "who asks for it alone means it");
    let node =
        of_text(&answer(&[("node_memory_MemFree_bytes", -9.0), ("node_memory_MemAvailable_bytes", -5.0)]));
    assert_eq!(moves(&node)[0].1, 145.0, "available says it better than free");
    assert_eq!(node.len(), 1);
}

#[test]
fn shares_and_places_under_other_names_are_known() {
    let share = refused(&format!(
        "\"Relative Time (Wall)\",\"run - system/gpu.0.memoryAllocated\"\n{}",
        lines(30, |n| format!("{},{}", 15 * n, 30 + n))
    ));
    assert!(share.contains("per cent"), "{share}");
    let history = only(&lines(30, |n| {
        format!(r#"{{"_step": {}, "_timestamp": 1772366400.5, "mem/rss_mb": {}}}"#, 10 * n, 2000 + n)
    }));
    assert_eq!((history.axis, history.x[29]), (Axis::Step, 290.0));
    let windows = only(&format!(
        "\"(PDH-CSV 4.0) (W. Europe Standard Time)(-60)\",\"\\\\PC\\Process(python)\\Working Set\",\"\\\\PC\\Process(python)\\% Processor Time\"\n{}",
        lines(30, |n| format!("\"03/01/2026 12:00:{n:02}.123\",\"{}\",\"99.1\"", 104_857_600 + 4096 * n))
    ));
    assert_eq!((windows.axis, windows.x[29], windows.y[0]), (Axis::Seconds, 29.0, 100.0 * MIB));
    let pages = only(&lines(30, |n| format!("step={n} rss={}", (300 + n) * 1_048_576)));
    assert_eq!(pages.y[0], 300.0 * MIB, "whole pages are bytes");
}

#[test]
fn what_a_launcher_writes_before_a_line_is_who_wrote_it() {
    for (label, name) in [
        ("[1,{r}]<stdout>: ", "x: 1,1"),
        ("[default{r}]:", "x: default1"),
        ("trainer-{r}  | ", "x: trainer-1"),
        ("[pod/train-{r}/main] ", "x: pod/train-1/main"),
        ("{r}: ", "x: rank 1"),
        ("(train_func pid=471{r}) ", "x: pid 4711"),
    ] {
        let line = |n: u32| {
            let (r, step) = (n % 3, n / 3);
            let rss = 2000 + if r == 1 { step } else { 0 };
            format!("{}step {step} rss {rss} MB", label.replace("{r}", &r.to_string()))
        };
        let found = of_text(&lines(90, line));
        assert_eq!((found.len(), moves(&found)[1]), (3, (name, 29e6)), "{label}");
    }
    for label in ["[{n}/30] ", "[epoch {n}] ", "[INFO] ", "{n}: "] {
        let line = |n: u32| format!("{}step {n} rss {} MB", label.replace("{n}", &n.to_string()), 2000 + n);
        assert_eq!(only(&lines(30, line)).x.len(), 30, "{label}");
    }
}

#[test]
fn every_process_that_a_table_or_a_log_names_has_its_course() {
    for names in ["step,rss_main_mb,rss_worker_mb", "step,rank0_mem_mb,rank1_mem_mb"] {
        let found = of_text(&format!("{names}\n{}", lines(30, |n| format!("{n},2000,{}", 2000 + n))));
        let told: Vec<f64> = moves(&found).iter().map(|(_, moved)| *moved).collect();
        assert_eq!(told, [0.0, 29e6], "{names}");
    }
    let log = of_text(&lines(30, |n| format!("step {n} main_rss=2000MB worker_rss={}MB", 2000 + n)));
    assert_eq!(moves(&log), [("x: main_rss", 0.0), ("x: worker_rss", 29e6)]);
    let parts = only(&format!(
        "step,rss_mb,rss_anon_mb,rss_file_mb\n{}",
        lines(30, |n| format!("{n},{},2000,{n}", 2000 + n))
    ));
    assert_eq!(parts.series["anon"][29], 2e9, "parts of one process are no processes");
    let cards = of_text(&lines(30, |n| format!("step {n}: GPU 0: 20.0 GB, cuda:1: 20.{n:02} GB")));
    assert_eq!(
        moves(&cards).iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["x: cuda1 memory", "x: gpu0 memory"]
    );
}

#[test]
fn a_table_may_begin_with_comments_and_name_its_columns_after_anything() {
    let text = lines(30, |n| format!("{n}\t2.0{n:02}"));
    let commented = only(&format!("# recorded by mem.sh\n# host n1\nstep\trss_gb\n{text}"));
    assert_eq!((commented.axis, commented.y[29]), (Axis::Step, 2.029e9));
    let rows = lines(30, |n| format!("\"2026-03-01 12:00:{n:02}\",\"2.000 GiB\",\"2.0{n:02} GiB\""));
    let grafana = of_text(&format!("\"Time\",\"train-0\",\"train-1\"\n{rows}"));
    assert_eq!(
        grafana.iter().map(|c| (c.name.as_str(), c.y[29])).collect::<Vec<_>>(),
        [("x: train-0", 2.0 * GIB), ("x: train-1", 2.029 * GIB)]
    );
    let jax = only(&lines(30, |n| {
        format!(
            "step {n} bytes_in_use={} peak_bytes_in_use=9000000000 bytes_limit=80000000000",
            8_000_000_000_u64 + u64::from(n)
        )
    }));
    assert_eq!((jax.metric.clone(), jax.axis, jax.y[29]), (Metric::Gpu, Axis::Step, 8_000_000_029.0));
}

/// Words that the readers look for, with what may stand between them.
const WORDS: &[&str] = &[
    "swpd",
    "free",
    "buff",
    "cache",
    "wa",
    "Mem:",
    "Speicher:",
    "total",
    "used",
    "shared",
    "buffers",
    "cached",
    "NAME",
    "CPU(cores)",
    "MEMORY(bytes)",
    "Control Group",
    "Tasks",
    "Memory",
    "{\"MemUsage\": \"1MiB / 2GiB\"}",
    "\"MemUsage\"",
    "GPU 0:",
    "cuda:1",
    "[1,2]",
    "|",
    "3:",
    "step",
    "rss",
    "allocated",
    "reserved",
    "heapUsed",
    "0",
    "7",
    "1.5GiB",
    "2000",
    "1772366400",
    "12:00:01",
    "2026-03-01",
    "#",
    ",",
    ";",
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
