//! Foreign curves as a person would read them: where reading them otherwise would turn the answer round.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]
#![allow(clippy::float_cmp, reason = "numbers that were written are read, not computed")]

mod text;

use lowtide_model::{Axis, Bytes, Metric};
use lowtide_store::import::{Hints, parse};
use std::fmt::Write;
use std::path::Path;
use text::{notes, of_text, only};

/// Lines of `epochs` passes of `steps` steps, as `line` writes them.
fn passes(epochs: u32, steps: u32, line: impl Fn(u32, u32) -> String) -> String {
    (0..epochs).flat_map(|epoch| (0..steps).map(move |step| (epoch, step))).fold(
        String::new(),
        |mut text, (epoch, step)| {
            writeln!(text, "{}", line(epoch, step)).unwrap();
            text
        },
    )
}

#[test]
fn a_step_that_begins_anew_with_each_epoch_counts_on() {
    let bars = |epoch, step| {
        format!("Epoch {epoch}: {step}%|##| {step}/83 [00:01<00:05, 3.0it/s, rss={}MB]", 2000 + step)
    };
    let words = |epoch, step| format!("Epoch {}/4 | step {step}/83 | mem {} MB", epoch + 1, 2000 + step);
    let bare = |epoch, step| format!("Epoch {}/4, Step {step}: RSS {} MB", epoch + 1, 2000 + step);
    let brackets =
        |epoch, step| format!("Epoch [{}][{step}/83] time: 0.612, memory: {}", epoch + 1, 2000 + step);
    for text in [passes(4, 83, bars), passes(4, 83, words), passes(4, 83, bare), passes(4, 83, brackets)] {
        let curve = only(&text);
        assert_eq!((curve.axis, curve.x.len(), curve.x[331]), (Axis::Step, 332, 331.0), "{text:.80}");
        assert_eq!(curve.context.epoch_steps, Some(83.0));
        assert!(notes(&curve).contains("4 passes of 83 steps"), "{}", notes(&curve));
    }
}

#[test]
fn an_epoch_on_a_line_of_its_own_counts_for_the_steps_under_it() {
    let line = |epoch, step| {
        let banner = if step == 0 { format!("Epoch {}/3\n", epoch + 1) } else { String::new() };
        format!("{banner}{}/20 [====>....] - loss: 0.5 - rss: {} MB", step + 1, 2000 + step)
    };
    let curve = only(&passes(3, 20, line));
    assert_eq!((curve.x[0], curve.x[59], curve.context.epoch_steps), (1.0, 60.0, Some(20.0)));
}

#[test]
fn steps_that_fall_back_are_passes_only_if_memory_goes_on() {
    let goes_on = passes(3, 20, |epoch, step| format!("step {step} rss {} MB", 2000 + 20 * epoch + step));
    assert!(notes(&only(&goes_on)).contains("while memory goes on"), "{}", notes(&only(&goes_on)));
    let restarts = passes(3, 20, |_, step| format!("step {step} rss {} MB", 2000 + 100 * step));
    assert_eq!(of_text(&restarts).len(), 3);
    let resumed = passes(2, 20, |_, step| format!("Epoch 1/4 step {step}/83 rss {} MB", 2000 + 100 * step));
    assert_eq!(of_text(&resumed).len(), 2, "the same epoch again is another run");
}

#[test]
fn a_table_with_epoch_and_step_counts_on_too() {
    let rows = passes(3, 10, |epoch, step| format!("{epoch},{step},{}", 2000 + step));
    let curve = only(&format!("epoch,step,rss_mb\n{rows}"));
    assert_eq!((curve.x[29], curve.context.epoch_steps), (29.0, Some(10.0)));
}

#[test]
fn an_x_that_stands_still_or_goes_up_and_down_is_no_axis() {
    let log = |time: fn(u32) -> f64| {
        passes(1, 60, |_, n| {
            let moment = format!("2026-03-01 12:{n:02}:00,000");
            format!("{moment} - mmdet - INFO - lr: 2e-02, time: {:.3}, memory: {}", time(n), 3800 + n)
        })
    };
    for (time, said) in [
        ((|_| 0.612) as fn(u32) -> f64, "the seconds stands still"),
        (|n| 0.6 + f64::from(n % 2) / 100.0, "the seconds goes up and down"),
    ] {
        let curve = only(&log(time));
        assert_eq!((curve.axis, curve.x[59]), (Axis::Seconds, 59.0 * 60.0));
        assert!(notes(&curve).contains(said), "{}", notes(&curve));
    }
    let bare = only(&passes(1, 30, |_, n| format!("step 5 rss {} MB", 2000 + n)));
    assert_eq!((bare.axis, bare.x[29]), (Axis::Sample, 29.0));
    let table = only(&format!("step,rss_mb\n{}", passes(1, 30, |_, n| format!("5,{}", 2000 + n))));
    assert_eq!((table.axis, table.x[29]), (Axis::Sample, 29.0));
    assert!(notes(&table).contains("`step` does not order the rows"), "{}", notes(&table));
    let json = only(r#"{"x": [5, 5, 5], "y": [1, 2, 3], "unit": "GB", "x_kind": "step"}"#);
    assert_eq!((json.axis, json.x.as_slice()), (Axis::Sample, &[0.0, 1.0, 2.0][..]));
}

#[test]
fn the_year_of_a_date_is_no_number_of_seconds() {
    let line = |_, n| format!(r#"time="2026-03-01T12:00:{n:02}Z" level=info rss="{} MiB""#, 2000 + 50 * n);
    let curve = only(&passes(1, 60, line));
    assert_eq!((curve.axis, curve.x[59]), (Axis::Seconds, 59.0));
}

#[test]
fn numbers_are_read_as_the_whole_file_writes_them() {
    for (line, bytes) in [
        ("Step {n}: RSS 2,{d:02} GB", 2.05e9),
        ("Step {n}: RSS 2,0{d:02} GB", 2.005e9),
        ("Step {n}: 2.0{d:02} MB", 2005e6),
        ("Schritt {n}: 2.0{d:02},5 MB", 2005.5e6),
        ("Step {n}: 2 0{d:02} MB", 2005e6),
        ("Step {n}: 2\u{a0}0{d:02} MB", 2005e6),
        ("Step {n}: 2'0{d:02} MB", 2005e6),
        ("étape {n} : 20{d:02} Mo", 2005e6),
        ("Step {n}: 2,0{d:02} MB", 2005e6),
        ("Step {n}: 2.0{d:02} GB", 2.005e9),
    ] {
        let write = |_, n: u32| line.replace("{n}", &n.to_string()).replace("{d:02}", &format!("{n:02}"));
        let curve = only(&passes(1, 40, write));
        assert!((curve.y[5] - bytes).abs() < 1.0, "{line}: {} in place of {bytes}", curve.y[5]);
        assert_eq!((curve.axis, curve.x[5]), (Axis::Step, 5.0), "{line}");
    }
}

#[test]
fn what_the_size_had_to_decide_is_said() {
    let curve = only(&passes(1, 20, |_, n| format!("Step {n}: 2.0{n:02} MB")));
    assert!(notes(&curve).contains("`2.000` read as 2000"), "{}", notes(&curve));
    let plain = only(&passes(1, 20, |_, n| format!("Step {n}: 2,0{n:02} MB")));
    assert!(!notes(&plain).contains("read as"), "{}", notes(&plain));
}

#[test]
fn tables_may_have_decimal_commas() {
    let rows = |line: fn(u32) -> String| passes(1, 40, |_, n| line(n));
    let german = rows(|n| format!("01.03.2026 12:00:{n:02};2000,{n:02}")).replace("2000,05", "2.000,05");
    let german = only(&format!("Zeit;Speicher (MB)\n{german}"));
    assert_eq!((german.axis, german.x[39], german.y[5]), (Axis::Seconds, 39.0, 2000.05e6));
    let quoted = rows(|n| format!(r#""2026-03-01 12:00:{n:02}";"1,9{n:02}""#));
    let quoted = only(&format!("\"Timestamp\";\"Arbeitsspeicher [GB]\"\n{quoted}"));
    assert_eq!(quoted.y[5], 1.905e9);
    assert!(notes(&quoted).contains("comma is the decimal mark"), "{}", notes(&quoted));
    let tabs = only(&format!("step\trss_mb\n{}", rows(|n| format!("{n}\t2000,{n:02}"))));
    assert_eq!((tabs.x[5], tabs.y[5]), (5.0, 2000.05e6));
    let english = only(&format!("step,rss_mb\n{}", rows(|n| format!(r#"{n}, "2,0{n:02}.5""#))));
    assert_eq!(english.y[5], 2005.5e6);
    let small = only(&format!("step,rss_mb\n{}", rows(|n| format!("{n},5.1{n:02}"))));
    assert_eq!(small.y[5], 5.105e6, "a program's table has no thousands by points");
}

#[test]
fn memory_that_is_free_is_turned_round() {
    for words in ["available memory:", "free RAM", "free:", "mem_available_mb ="] {
        let curve = only(&passes(1, 40, |_, n| format!("step {n}: {words} {} MB", 30_000 - 50 * n)));
        assert_eq!((curve.y[0], curve.y[39], curve.no_level), (0.0, 39.0 * 50e6, true), "{words}");
        assert!(notes(&curve).contains("only the change is true"), "{}", notes(&curve));
    }
    let whole =
        only(&passes(1, 40, |_, n| format!("step {n}: free memory {} MB of 64000 MB", 30_000 - 50 * n)));
    assert_eq!((whole.y[0], whole.no_level, whole.context.limit), (34e9, false, Some(Bytes(64_000_000_000))));
    let both = only(&passes(1, 40, |_, n| format!("step {n}: rss {} MB, free memory 30000 MB", 2000 + n)));
    assert_eq!(both.y[0], 2e9, "what is held wins");
}

#[test]
fn available_memory_of_a_node_needs_its_total() {
    let series = |name: &str, values: &str| {
        format!(r#"{{"metric": {{"__name__": "node_memory_{name}_bytes"}}, "values": [{values}]}}"#)
    };
    let available = series("MemAvailable", r#"[0, "30e9"], [15, "29e9"], [30, "28e9"]"#);
    let answer = |series: &str| format!(r#"{{"status": "success", "data": {{"result": [{series}]}}}}"#);
    let alone = only(&answer(&available));
    assert_eq!((alone.y[2], alone.no_level), (2e9, true));
    let total = series("MemTotal", r#"[0, "64e9"]"#);
    let whole = only(&answer(&format!("{available},{total}")));
    assert_eq!((whole.y[2], whole.no_level), (36e9, false));
}

#[test]
fn each_node_is_held_against_its_own_memory() {
    let series = |name: &str, labels: &str, value: &str| {
        let values: Vec<String> = (0..5).map(|n| format!("[{}, \"{value}\"]", 15 * n)).collect();
        format!(r#"{{"metric": {{"__name__": "{name}", {labels}}}, "values": [{}]}}"#, values.join(","))
    };
    let (a, b) = (r#""instance": "a:9100""#, r#""instance": "b:9100""#);
    let (total, available) = ("node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes");
    let card = |host: &str, bytes: &str, name: &str| {
        series(name, &format!(r#""gpu": "0", "Hostname": "{host}", "instance": "{host}:9400""#), bytes)
    };
    let pod = r#""pod": "train-0", "container": "c", "instance": "b:10250""#;
    let all = [
        series(total, a, "64e9"),
        series(total, b, "128e9"),
        series(available, a, "30e9"),
        series(available, b, "100e9"),
        series(available, r#""instance": "c:9100""#, "10e9"),
        card("a", "20000", "DCGM_FI_DEV_FB_USED"),
        card("a", "81920", "DCGM_FI_DEV_FB_TOTAL"),
        card("b", "20000", "DCGM_FI_DEV_FB_USED"),
        series("container_memory_working_set_bytes", pod, "5e9"),
        series(
            "kube_pod_container_resource_limits",
            r#""pod": "train-0", "container": "c", "resource": "cpu""#,
            "8",
        ),
    ];
    let found = of_text(&format!(r#"{{"status": "success", "data": {{"result": [{}]}}}}"#, all.join(",")));
    let told: Vec<_> =
        found.iter().map(|c| (c.y[0], c.no_level, c.context.limit.map(|limit| limit.0))).collect();
    let mib = 1_048_576.0;
    assert_eq!(
        told,
        [
            (34e9, false, Some(64_000_000_000)),
            (28e9, false, Some(128_000_000_000)),
            (0.0, true, None),
            (20_000.0 * mib, false, Some(80 << 30)),
            (20_000.0 * mib, false, None),
            (5e9, false, Some(128_000_000_000)),
        ]
    );
}

#[test]
fn the_number_that_srun_writes_before_each_line_is_its_rank() {
    let line = |_, n: u32| {
        format!("{:>2}: step {} mem {} MB", n % 4, 10 * (n / 4), if n % 4 == 1 { 5000 + n } else { 3000 })
    };
    let found = of_text(&passes(1, 160, line));
    let told: Vec<_> = found.iter().map(|c| (c.name.as_str(), c.axis, c.x.len(), c.y[39])).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[1], ("x: rank 1", Axis::Step, 40, 5157e6));
    let epochs =
        only(&passes(4, 20, |epoch, n| format!("{epoch}: step {} mem {} MB", 20 * epoch + n, 3000 + n)));
    assert_eq!(epochs.x.len(), 80, "a number that only rises is no rank");
}

#[test]
fn each_rank_of_one_log_is_a_curve() {
    let line = |_, n: u32| {
        format!("[rank{}] step {} mem {} MB", n % 4, n / 4, if n % 4 == 1 { 5000 + n } else { 3000 })
    };
    let found = of_text(&passes(1, 160, line));
    let names: Vec<&str> = found.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(names, ["x: rank 0", "x: rank 1", "x: rank 2", "x: rank 3"]);
    assert!(found.iter().all(|curve| curve.x.len() == 40 && curve.x.is_sorted()));
    assert_eq!((found[1].y[39], found[2].y[39]), (5157e6, 3e9));
    let lora = only(&passes(1, 20, |_, n| format!("lora rank 16 step {n} mem {} MB", 3000 + n)));
    assert_eq!(lora.x.len(), 20);
}

#[test]
fn gpu_memory_beside_other_memory_is_told_too() {
    let line =
        |_, n| format!("step {n} | RSS 2,000 MB | GPU alloc {} MB | GPU reserved 3000 MB", 1000 + 4 * n);
    let found = of_text(&passes(1, 40, line));
    let told: Vec<_> = found.iter().map(|c| (c.name.as_str(), c.metric.clone(), c.y[39])).collect();
    assert_eq!(told, [("x: rss", Metric::Rss, 2e9), ("x: gpu alloc", Metric::Gpu, 1156e6)]);
    assert_eq!(found[1].series["reserved"][39], 3e9);
}

#[test]
fn what_the_allocator_took_stands_beside_what_tensors_hold() {
    for line in [
        (|n| format!("iter {n}: allocated 1000.0MB, reserved {}MB", 2000 + 10 * n)) as fn(u32) -> String,
        |n| format!("step {n} reserved: {}.0 MB allocated: 1.000 GB", 2000 + 10 * n),
        |n| {
            format!(
                "step={n} torch.cuda.memory_allocated=1000000000 torch.cuda.memory_reserved={}000000",
                2000 + 10 * n
            )
        },
        |n| {
            format!("iteration {n} | max_memory_allocated 1000 MB | max_memory_reserved {} MB", 2000 + 10 * n)
        },
        |n| {
            format!(
                "{{'loss': 0.5, 'step': {n}, 'gpu_mem_alloc_gb': 1.0, 'gpu_mem_reserved_gb': {}}}",
                2.0 + f64::from(n) / 100.0
            )
        },
    ] {
        let torch = only(&passes(1, 40, |_, n| line(n)));
        assert_eq!(
            (torch.metric.clone(), torch.y[39], torch.series["reserved"][39]),
            (Metric::Gpu, 1e9, 2.39e9)
        );
        assert!(notes(&torch).contains("memory is fragmented, not leaked"), "{}", notes(&torch));
    }
    let json = only(
        r#"{"x": [1, 2], "y": [1, 1], "unit": "GB", "metric": "gpu_allocated", "series": {"gpu_reserved": [2, 2.39]}}"#,
    );
    assert_eq!((json.metric.clone(), json.y[1], json.series["reserved"][1]), (Metric::Gpu, 1e9, 2.39e9));
    let alone = only(&passes(1, 40, |_, n| format!("iter {n}: reserved {}MB", 2000 + 10 * n)));
    assert!(notes(&alone).contains("fragmentation looks like a leak"), "{}", notes(&alone));
    let line = |_, n: u32| {
        format!(
            "[2026-03-01 12:00:{n:02},123] [INFO] MA 4.0 GB         Max_MA 4.5 GB         CA 5.{n:02} GB         Max_CA 6 GB\n\
             [2026-03-01 12:00:{n:02},124] [INFO] CPU Virtual Memory:  used = 40.{n:02} GB, percent = 16.0%"
        )
    };
    let deepspeed = of_text(&passes(1, 40, line));
    let told: Vec<_> = deepspeed.iter().map(|c| (c.name.as_str(), c.metric.clone(), c.y[39])).collect();
    assert_eq!(
        told,
        [("x: cpu virtual memory used", Metric::Host, 40.39e9), ("x: gpu allocated", Metric::Gpu, 4e9)]
    );
    assert_eq!(deepspeed[1].series["reserved"][39], 5.39e9);
}

#[test]
fn a_table_tells_allocated_and_reserved_as_one_curve_too() {
    let rows = passes(1, 40, |_, n| format!("{n},{},1000,5000", 2000 + 10 * n));
    for names in
        ["step,gpu_reserved_mb,gpu_alloc_mb,rss_mb", "step,run - gpu_reserved_mb,run - gpu_alloc_mb,rss_mb"]
    {
        let found = of_text(&format!("{names}\n{rows}"));
        let (rss, gpu) = (&found[0], &found[1]);
        assert_eq!((found.len(), &rss.metric, &gpu.metric), (2, &Metric::Rss, &Metric::Gpu), "{names}");
        assert_eq!((gpu.y[39], gpu.series["reserved"][39]), (1e9, 2.39e9));
        assert!(!rss.series.contains_key("reserved"));
    }
    let ranks = passes(1, 40, |_, n| format!("{n},{},{},1000", n % 2, 2000 + 10 * n));
    let found = of_text(&format!("step,rank,cuda_reserved_mb,cuda_allocated_mb\n{ranks}"));
    let told: Vec<_> = found.iter().map(|c| (c.name.as_str(), c.series["reserved"].len())).collect();
    assert_eq!(told, [("x: rank 0, cuda_allocated_mb", 20), ("x: rank 1, cuda_allocated_mb", 20)]);
}

#[test]
fn prometheus_tells_allocated_and_reserved_as_one_curve_too() {
    let series = |name: &str, gpu: u32, bytes: u64| {
        let values: Vec<String> = (0..40).map(|n| format!("[{}, \"{bytes}\"]", 1000 + 15 * n)).collect();
        format!(r#"{{"metric": {{"__name__": "{name}", "gpu": "{gpu}"}}, "values": [{}]}}"#, values.join(","))
    };
    let all = [0, 1].map(|gpu| {
        let of = |what: &str, bytes| series(&format!("pytorch_cuda_memory_{what}_bytes"), gpu, bytes);
        format!("{},{}", of("reserved", 3_000_000_000), of("allocated", 2_000_000_000))
    });
    let found = of_text(&format!(
        r#"{{"status": "success", "data": {{"resultType": "matrix", "result": [{}]}}}}"#,
        all.join(",")
    ));
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|c| c.y[0] == 2e9 && c.series["reserved"][39] == 3e9), "{found:?}");
}

#[test]
fn a_live_heap_goes_beside_the_memory_of_its_process() {
    let line = |_, n| {
        format!(r#"{{"step": {n}, "rss": {}000000, "heapTotal": 60000000, "heapUsed": 26000000}}"#, 2000 + n)
    };
    let node = only(&passes(1, 40, line));
    assert_eq!(
        (node.metric.clone(), node.series["heap_used"][3], node.series["heap_total"][3]),
        (Metric::Rss, 26e6, 60e6)
    );
    let rows = passes(1, 40, |_, n| format!("{n},{},26,60", 2000 + n));
    let table = only(&format!("step,rss_mb,heap_used_mb,heap_total_mb\n{rows}"));
    assert_eq!((table.series["heap_used"][3], table.series["heap_total"][3]), (26e6, 60e6));
    let traced =
        only(&passes(1, 40, |_, n| format!("step {n}: rss={}MB traced=40MB peak_traced=90MB", 2000 + n)));
    assert_eq!(traced.series["heap_used"][3], 40e6);
}

#[test]
fn what_is_there_now_wins_over_the_peak() {
    let both =
        only(&passes(1, 40, |_, n| format!("step {n}: peak mem 9000 MB, current mem {} MB", 2000 + n)));
    assert_eq!(both.y[39], 2039e6);
    assert!(notes(&both).contains("`current mem`"), "{}", notes(&both));
    let alone = only(&passes(1, 40, |_, n| format!("step {n}: peak mem {} MB", 2000 + n)));
    assert_eq!(alone.metric, Metric::MaxRss);
    assert!(notes(&alone).contains("it cannot fall"), "{}", notes(&alone));
}

#[test]
fn a_limit_on_the_lines_is_taken_with_them() {
    for (line, level, limit) in [
        (" 1%|#| {n}/200 [00:01<01:01, 1.00it/s, RAM=12.3GB/62.5GB]", 12.3e9, 62_500_000_000),
        ("Step {n}: 2,000 MB / 32,000 MB", 2e9, 32_000_000_000),
        ("Step {n}: RAM 2.5/32.0 GB", 2.5e9, 32_000_000_000),
    ] {
        let curve = only(&passes(1, 40, |_, n| line.replace("{n}", &n.to_string())));
        assert_eq!((curve.y[5], curve.context.limit), (level, Some(Bytes(limit))), "{line}");
    }
    let rates = only(&passes(1, 40, |_, n| format!("step {n} 350.5 MB/s mem_used_gb 2.0")));
    assert_eq!((rates.y[0], rates.context.limit), (2e9, None));
}

#[test]
fn a_size_under_its_trainers_line_belongs_there() {
    let line = |_, n: u32| {
        format!("{{'loss': 0.5, 'epoch': {}.{:02}}}\n[mem] rss {} MiB", n / 100, n % 100, 2000 + n)
    };
    let curve = only(&passes(1, 200, line));
    assert_eq!((curve.axis, curve.x[199]), (Axis::Epoch, 1.99));
}

fn refused(text: &str, hints: &Hints) -> String {
    parse(Path::new("x.txt"), text.as_bytes(), hints).unwrap_err().to_string()
}

#[test]
fn a_long_pause_without_growth_is_left_out_of_x() {
    let rows = passes(1, 150, |_, n| {
        format!("{},{}", 1_700_000_000 + 10 * n + if n < 75 { 0 } else { 36_000 }, 2000 + 5 * n)
    });
    let curve = only(&format!("timestamp,rss_mb\n{rows}"));
    assert_eq!(curve.x[149], 1490.0);
    assert!(notes(&curve).contains("36000 seconds without a sample"), "{}", notes(&curve));
}

#[test]
fn free_for_people_is_read_in_one_column_throughout() {
    let line = |_, n: u32| {
        let tenths = 90 + n;
        let used = if tenths < 100 { format!("9.{}Gi", tenths - 90) } else { format!("{}Gi", tenths / 10) };
        format!(
            "       total   used   free   shared  buff/cache   available\nMem:   62Gi   {used}  30Gi  2.4Gi  20Gi  50Gi"
        )
    };
    let curve = only(&passes(1, 30, line));
    assert_eq!((curve.y[9], curve.y[10]), (9.9 * 1_073_741_824.0, 10.0 * 1_073_741_824.0));
    assert!(notes(&curve).contains("`used`"), "{}", notes(&curve));
}

#[test]
fn a_limit_in_a_table_is_taken_with_it() {
    let rows = passes(1, 30, |_, n| format!("2026/03/01 12:00:{n:02}.000, {} MiB, 81920 MiB", 2000 + n));
    let card = only(&format!("timestamp, memory.used [MiB], memory.total [MiB]\n{rows}"));
    assert_eq!(card.context.limit, Some(Bytes(80 << 30)));
    let cells = passes(1, 30, |_, n| format!("{n}\t{}MiB / 16GiB", 2000 + n));
    let cells = only(&format!("step\tmemory\n{cells}"));
    assert_eq!((cells.y[0], cells.context.limit), (2000.0 * 1_048_576.0, Some(Bytes(16 << 30))));
}

#[test]
fn what_is_in_per_cent_is_never_a_size() {
    let table =
        format!("step,run - system.memory_percent\n{}", passes(1, 30, |_, n| format!("{n},30.{n:02}")));
    let asked = Hints { y: Some("run - system.memory_percent".into()), ..Hints::default() };
    for hints in [Hints::default(), asked] {
        let error = refused(&table, &hints);
        assert!(error.contains("is in per cent") && error.contains("memory.rssMB"), "{error}");
    }
    let megatron = passes(1, 30, |_, n| format!("iteration {n}/ 15000 | mem usages: 0.50{n:02} |"));
    let words = passes(1, 30, |_, n| format!("Step {n}: RAM used 37.{n}% loss 0.2"));
    for text in [megatron, words] {
        assert!(refused(&text, &Hints::default()).contains("as a part of a whole"), "{text:.60}");
    }
}

#[test]
fn errors_say_what_is_wrong_and_not_what_else_it_could_be() {
    let error = |text: &str| refused(text, &Hints::default());
    assert_eq!(error(" \n\n"), "x.txt is empty");
    assert!(
        error(r#"{"status": "error", "errorType": "bad_data", "error": "parse error"}"#)
            .ends_with("which says: parse error")
    );
    assert!(error(r#"{"y": [1, 2, 3], "unit": "XB"}"#).ends_with("tell the right one with --unit"));
    let table = "step,rss_mb,vms_mb\n1,5,9\n2,6,9\n3,7,9\n";
    let hints =
        |x: Option<&str>, y: Option<&str>| Hints { x: x.map(Into::into), y: y.map(Into::into), unit: None };
    let wrong = refused(table, &hints(None, Some("nothing")));
    assert_eq!(wrong, "no memory curve in x.txt: no column `nothing` among: step, rss_mb, vms_mb");
    for (x, y) in [("rss_mb", "rss_mb"), ("rss_mb", "vms_mb")] {
        assert!(refused(table, &hints(Some(x), Some(y))).contains("which orders nothing"), "{x} {y}");
    }
    assert!(error("step,rss_mb\n0,0\n1,-5\n2,-10\n3,-15\n").contains("3 of 4 values are below zero"));
    assert!(error("step,rss_bytes\n0,1e300\n1,1e300\n").contains("more than any machine has"));
}

#[test]
fn the_curve_format_says_what_it_left_out() {
    let short = only(r#"{"x": [1, 2], "y": [1], "unit": "MB", "series": {"anon": [1, 2, 3]}}"#);
    assert!(notes(&short).contains("x has 2 values and y has 1"), "{}", notes(&short));
    assert!(notes(&short).contains("series `anon` has 3 values, not 1"), "{}", notes(&short));
    let text =
        r#"{"x": ["0", "1", "2"], "y": ["5", "6", "7"], "unit": "GB", "context": {"restarts": [50, 100]}}"#;
    let strings = only(text);
    assert_eq!((strings.x[2], strings.y[2], strings.context.restarts), (2.0, 7e9, Some(2.0)));
    assert_eq!(strings.context.restart_x, [50.0, 100.0]);
    let one_odd = only("step,rss_mb\n0,5000\n1,-1\n2,5002\n3,5003\n");
    assert!(
        one_odd.y[1].is_nan() && notes(&one_odd).contains("1 of 4 values are no size"),
        "{}",
        notes(&one_odd)
    );
}
