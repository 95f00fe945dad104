//! Curves that were lost on the way, so that a gate passed over a leak, and answers that were wrong.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]
#![allow(clippy::float_cmp, reason = "numbers that were written are read, not computed")]

mod text;

use lowtide_model::Metric;
use lowtide_store::import::left_out;
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
