//! Which of the sizes of a foreign file is what: cgroups' files, totals that are sums, and that no column that may leak is
//! passed over in silence.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]
#![allow(clippy::float_cmp, reason = "numbers that were written are read, not computed")]

mod text;

use lowtide_model::{Bytes, Curve, Metric};
use std::fmt::Write;
use text::{notes, of_text, only, refused};

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

/// The names of the curves of rows of which the last column grows by `grows` each, and those that grow.
fn growing(text: &str) -> (usize, Vec<String>) {
    let curves = of_text(text);
    let grows = curves.iter().filter(|curve| curve.y[59] > curve.y[0]);
    (curves.len(), grows.map(|curve| curve.name.replacen("x: ", "", 1)).collect())
}

#[test]
fn a_column_that_grows_beside_others_that_do_not_is_a_curve_of_its_own() {
    for (heading, steady, grows) in [
        ("step,cpu_mb,gpu_mb", "2000", 3000),
        ("step,ram_gb,gpu_gb", "30.1", 20),
        ("step,cpu_ram_gb,gpu_ram_gb", "30.1", 20),
        ("step,host_mem_gb,device_mem_gb", "30.1", 20),
        ("step,gpu0_mb,gpu1_mb", "30000", 20_000),
        ("step,rank0_gb,rank1_gb", "30.1", 20),
        ("step,worker_0_mb,worker_1_mb", "300", 300),
        ("step,trainer_mb,dataloader_mb", "3000", 500),
        ("time,proc_mb,total_mb", "3000", 5000),
        ("time,rss_mb,tree_total_mb", "3000", 5000),
    ] {
        let last = heading.rsplit(',').next().unwrap().to_owned();
        let text = rows(&format!("{heading}\n"), |n| format!("{n},{steady},{}", grows + n));
        assert_eq!(growing(&text), (2, vec![last]), "{heading}");
    }
    let text = rows("ts,worker_0_mb,worker_1_mb,main_mb,total_mb\n", |n| {
        format!("{n},300,{},2000,{}", 300 + 5 * n, 2600 + 5 * n)
    });
    assert_eq!(growing(&text), (4, vec!["worker_1_mb".to_owned(), "total_mb".to_owned()]));
}

#[test]
fn sizes_of_one_process_are_one_curve_and_what_is_left_is_named() {
    let text = rows("step,rss_mb,vms_mb,peak_rss_mb,cpu_usage,read_mb\n", |n| {
        format!("{n},{},9000,{},90,{n}", 3000 + n, 3000 + n)
    });
    let curve = only(&text);
    assert!(notes(&curve).contains("not read: `vms_mb`, `peak_rss_mb`; --y"), "{}", notes(&curve));
    let parts = rows("step,anon_mb,file_mb,total_mb\n", |n| format!("{n},3000,{n},{}", 3000 + n));
    assert_eq!(only(&parts).metric, Metric::Anon);
}

#[test]
fn a_log_tells_of_each_process_and_card_too() {
    let lines = rows("", |n| format!("step {n} | cpu_gb: 30.1 | gpu_gb: {}.5", 20 + n));
    assert_eq!(growing(&lines), (2, vec!["gpu_gb".to_owned()]));
    let records = rows("", |n| {
        let gpu = 20 * G + n * G;
        format!("{{\"step\": {n}, \"mem\": {{\"rss\": {}, \"vms\": {}, \"gpu\": {gpu}}}}}", 3 * G, 31 * G)
    });
    assert_eq!(growing(&records), (2, vec!["mem.gpu".to_owned()]));
    let cards = rows("", |n| format!("step {n} {{'cuda:0': '20.0 GiB', 'cuda:1': '{}.5 GiB'}}", 20 + n));
    assert_eq!(growing(&cards), (2, vec!["cuda1 memory".to_owned()]));
}

#[test]
fn each_size_of_a_list_is_a_curve_and_a_unit_behind_it_is_that_of_all() {
    let form = |text: fn(u64) -> String| {
        let text = rows("", text);
        let found = growing(&text);
        (found.0, found.1.len(), named(&of_text(&text), "1").y[0])
    };
    assert_eq!(form(|n| format!("step {n} gpu mem: [20.0, {}.1, 20.0] GB", 20 + n)), (3, 1, 20.1e9));
    assert_eq!(form(|n| format!("step {n} GPU memory (GB): 20.0 {}.1 20.0", 20 + n)), (3, 1, 20.1e9));
    let record = |n| format!("{{\"step\": {n}, \"gpu_mem_gb\": [20.0, {}.1], \"rss_gb\": 3.0}}", 20 + n);
    assert_eq!(form(record), (3, 1, 20.1e9));
    let text = rows("", |n| format!("step {n} mem_get_info: ({}, 85000000000)", 60 * G - n));
    assert_eq!(only(&text).context.limit, Some(Bytes::from_f64(85e9)), "free and total are no list");
}

#[test]
fn what_is_there_now_comes_before_a_peak_of_the_same() {
    for heading in ["step,max_rss_mb,cur_mb", "step,peak_mb,now_mb", "step,peak_mb,current_mb"] {
        let curve = only(&rows(&format!("{heading}\n"), |n| format!("{n},8000,{}", 3000 + n)));
        assert_eq!(curve.y[0], 3e9, "{heading}");
    }
    let log = rows("", |n| format!("step {n} peak=8000MB current={}MB", 3000 + n));
    assert_eq!(only(&log).y[0], 3e9);
}

#[test]
fn the_number_of_a_memory_name_wins_over_a_size_that_stands_alone() {
    for form in [
        "shard of 512 MB loaded in 0.3s, RSS now 3000 MB",
        "shard of 512 MB, RSS is 3000 MB",
        "read 512 MB in 0.3s; memory usage now 3000 MB",
        "L3 cache 512 MB, process is using 3000 MB of memory",
        "system memory 60000 MB, process memory 3000 MB",
    ] {
        let text = rows("", |n| format!("step {n}: {}", form.replace("3000", &(3000 + n).to_string())));
        assert_eq!(only(&text).y[0], 3e9, "{form}");
    }
}

#[test]
fn a_process_comes_before_its_machine_and_two_bare_sizes_are_asked_for() {
    let table = rows("step,system_used_gb,process_gb\n", |n| format!("{n},60.0,{}.5", 3 + n));
    assert_eq!(only(&table).y[0], 3.5e9);
    for (rss, vsz) in [(0, 50_000), (5000, 50_000), (5000, 500)] {
        let text = rows("", |n| format!("{} {}", 3_000_000 + n * rss + n % 2, 31_000_000 + n * vsz));
        assert!(refused(&text).contains("--y 1"), "{}", refused(&text));
    }
    let clock = rows("", |n| format!("{} {}", 1_741_078_800 + n * 10, 3_000_000 + n));
    assert_eq!(only(&clock).y[0], 3_072_000_000.0);
}

#[test]
fn page_cache_beside_what_is_free_or_used_is_no_need() {
    let m = 1_000_000;
    for (heading, row) in [
        ("time,kbmemfree,kbmemused,kbbuffers,kbcached", "{free},{full},200000,{cached}"),
        (
            "time,node_memory_MemFree_bytes,node_memory_Cached_bytes,node_memory_MemTotal_bytes",
            "{free},{cached},{all}",
        ),
        ("time,MemTotal,MemFree,MemAvailable,Cached", "{all},{free},90000000,{cached}"),
        (
            "time,[MEM]Tot,[MEM]Used,[MEM]Free,[MEM]Buf,[MEM]Cached,[MEM]Slab",
            "{all},{full},{free},0,{cached},9",
        ),
    ] {
        let text = rows(&format!("{heading}\n"), |n| {
            let (free, cached) = (60 * m - n * m / 5, 30 * m + n * m / 5);
            let row = row.replace("{free}", &free.to_string()).replace("{cached}", &cached.to_string());
            let row = row.replace("{full}", &(130 * m - free).to_string()).replace("{all}", "130000000");
            format!("{},{row}", 1_741_078_800 + n * 60)
        });
        let curve = only(&text);
        assert_eq!((curve.metric.clone(), curve.y[59]), (Metric::Host, curve.y[0]), "{heading}");
    }
    let sar = rows("Linux 3.10\n\n09:00:01 kbmemfree kbmemused %memused kbbuffers kbcached\n", |n| {
        format!("09:{n:02}:00 {} {} 50 200000 {}", 60 * m - n * m / 5, 70 * m + n * m / 5, 30 * m + n * m / 5)
    });
    assert_eq!(only(&sar).y[59], 39_800_000.0 * 1024.0);
    let dumps = rows("", |n| {
        format!(
            "MemTotal: 131072000 kB\nMemFree: {} kB\nCached: {} kB",
            60 * m - n * m / 5,
            30 * m + n * m / 5
        )
    });
    assert_eq!(only(&dumps).y[59], only(&dumps).y[0]);
}

#[test]
fn used_that_holds_no_cache_is_the_need() {
    let text = rows("time,mem.free,mem.cached,mem.used\n", |n| {
        format!("{},{},{},{}", n * 60, 60 * G - n * G / 5, 30 * G, 30 * G + n * G / 5)
    });
    assert_eq!(only(&text).y[59], 41.8e9);
}

#[test]
fn page_cache_beside_a_containers_usage_is_told_apart() {
    for heading in
        ["pod,container_memory_usage_bytes,container_memory_cache", "pod,memory_usage_bytes,cache_bytes"]
    {
        let text = rows(&format!("time,{heading}\n"), |n| {
            format!("{},a,{},{}", n * 10, 35 * G + n * G / 10, 30 * G + n * G / 10)
        });
        assert_eq!(only(&text).series["anon"][59], 5e9, "{heading}");
    }
    let series = |name: &str, value: fn(u64) -> u64| {
        let values: Vec<String> = (0..60).map(|n| format!("[{},\"{}\"]", n * 30, value(n))).collect();
        format!("{{\"metric\":{{\"__name__\":\"{name}\",\"pod\":\"a\"}},\"values\":[{}]}}", values.join(","))
    };
    let answer = |series: &[String]| format!("{{\"data\":{{\"result\":[{}]}}}}", series.join(","));
    let usage = series("container_memory_usage_bytes", |n| 35 * G + n * G / 10);
    let cache = series("container_memory_cache", |n| 30 * G + n * G / 10);
    let rss = series("container_memory_rss", |_| 5 * G);
    assert_eq!(only(&answer(&[usage.clone(), cache.clone()])).series["anon"][59], 5e9);
    assert_eq!(only(&answer(&[usage, cache, rss])).y[59], 5e9);
    let free = series("node_memory_MemFree_bytes", |n| 60 * G - n * G / 5);
    let cached = series("node_memory_Cached_bytes", |n| 30 * G + n * G / 5);
    let curve = only(&answer(&[free, cached]));
    assert_eq!(curve.y[59], curve.y[0]);
}

#[test]
fn a_unix_time_among_the_numbers_of_a_line_is_the_time() {
    for form in ["put sys.mem.used {t} {m} host=gpu01", "mem {t} {m}", "mem {t}000 {m}"] {
        let text = rows("", |n| {
            let time = (1_741_078_800 + n * 60).to_string();
            form.replace("{t}", &time).replace("{m}", &(3 * G + n * 9_000_000).to_string())
        });
        let curve = only(&text);
        assert_eq!((curve.x[59], curve.y[0]), (59.0 * 60.0, 3e9), "{form}");
    }
    let rss = rows("", |n| format!("step {n} rss {}", 1_741_078_528 + n * 4096));
    assert_eq!(only(&rss).y[0], 1_741_078_528.0, "memory moves by pages");
    let atop = rows("", |n| {
        let free = 15_000_000 - n * 20_000;
        format!(
            "MEM gpu01 {} 2025/03/04 09:00:00 60 4096 32000000 {free} 7000000 50000 9\nSEP",
            1_741_078_800 + n * 60
        )
    });
    assert_eq!(only(&atop).y[0], 9_950_000.0 * 4096.0);
}

#[test]
fn of_torchs_memory_stats_only_what_is_held_now_is_memory() {
    let heading = "active_bytes.all.allocated,allocated_bytes.all.current,allocated_bytes.all.freed,\
                   allocated_bytes.all.peak,allocated_bytes.small_pool.current,num_alloc_retries,\
                   reserved_bytes.all.current,step";
    let text = rows(&format!("{heading}\n"), |n| {
        format!("{},10485760000,{},15728640000,5,0,16777216000,{n}", n * G, n * G)
    });
    let curve = only(&text);
    assert_eq!((curve.y[59], curve.series["reserved"][59]), (10_485_760_000.0, 16_777_216_000.0));
}

#[test]
fn bytes_in_a_name_are_bytes_and_siblings_share_a_unit() {
    for heading in ["step,bytes_in_use", "step,heap_bytes_used", "t,heapUsed"] {
        let text = rows(&format!("{heading}\n"), |n| format!("{n},{}", 300_000_001 + n * 501_123));
        assert_eq!(only(&text).y[0], 300_000_001.0, "{heading}");
    }
    let text = rows("step,main_rss,workers_rss,total_rss\n", |n| {
        format!("{n},2000000000,{},{}", 300_000_000 + n * 5_000_000, 2_300_000_000 + n * 5_000_000)
    });
    assert_eq!(named(&of_text(&text), "workers").y[0], 3e8);
}

#[test]
fn shares_are_refused_by_their_name_and_by_what_stands_beside_them() {
    for heading in ["step,gpu_mem_util", "step,memory_utilization"] {
        let text = rows(&format!("{heading}\n"), |n| format!("{n},{}", 45 + n / 3));
        assert!(refused(&text).contains("per cent"), "{heading}: {}", refused(&text));
    }
    for heading in ["step,cpu_usage,memory_usage", "step,cpu,mem"] {
        let text = rows(&format!("{heading}\n"), |n| format!("{n},{},{}.5", 90 + n % 5, 45 + n / 3));
        assert!(refused(&text).contains("--unit GB"), "{heading}: {}", refused(&text));
    }
    let text = rows("step,cpu_usage,rss_gb\n", |n| format!("{n},90,{}.5", 4 + n / 3));
    assert_eq!(only(&text).y[0], 4.5e9);
}

#[test]
fn cards_of_gpustat_and_of_a_query_are_curves_each() {
    let gpustat = rows("", |n| {
        format!(
            "gpu01  Tue Mar  4 09:{n:02}:00 2025  550.54\n[0] NVIDIA A100-SXM4-80GB | 45C,  99 % | {} / 81920 MB | a(19500M)\n\
             [1] NVIDIA A100-SXM4-80GB | 45C,   0 % |     3 / 81920 MB |",
            20_000 + n
        )
    });
    let query = rows("", |n| {
        let card = |id: u64, used: u64| {
            format!(
                "GPU 00000000:0{id}:00.0\n    FB Memory Usage\n        Total      : 81920 MiB\n        Used       : {used} MiB\n    \
                 BAR1 Memory Usage\n        Total       : 131072 MiB\n        Used         : 7 MiB"
            )
        };
        format!("Timestamp   : Tue Mar  4 09:{n:02}:00 2025\n{}\n{}", card(0, 20_000 + n), card(1, 3))
    });
    for text in [gpustat, query] {
        let curves = of_text(&text);
        let mebibytes: Vec<f64> = curves.iter().map(|curve| curve.y[59] / 1_048_576.0).collect();
        assert_eq!(mebibytes, [20_059.0, 3.0], "{:?}", names(&curves));
        assert!(curves.iter().all(|curve| curve.x[59] == 3540.0 && curve.context.limit.is_some()));
    }
}

#[test]
fn rows_of_several_cards_are_parted_by_their_index_or_their_turn_and_it_is_said() {
    let index =
        rows("", |n| format!("0, 20000 MiB, 81920 MiB, 99 %\n1, {} MiB, 81920 MiB, 99 %", 20_000 + n * 50));
    assert_eq!(growing(&index), (2, vec!["GPU 1".to_owned()]));
    for heading in ["", "memory.used [MiB], memory.total [MiB]\n"] {
        let turns = rows(heading, |n| format!("20000 MiB, 81920 MiB\n{} MiB, 81920 MiB", 20_000 + n * 50));
        assert_eq!(growing(&turns), (2, vec!["card 2 of 2".to_owned()]));
        assert!(notes(&of_text(&turns)[0]).contains("2 cards in turn"));
        let one = rows(heading, |n| format!("{} MiB, 81920 MiB", 20_000 + n * 50));
        assert_eq!(growing(&one).0, 1);
    }
}
