//! Scans a living process and prints the report as JSON, with the CPU time it took: for work on the scanner.
//!
//! `cargo run --release -p lowtide-scan --example scan_pid -- PID`; with a path behind it, it saves a dump there
//! instead (the process's data is in it), as a base for fuzzing.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a tool for the one who runs it")]

#[path = "../tests/live/mod.rs"]
mod live;

use lowtide_scan::{Dump, Facts, Settings, scan};

fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("stat");
    let fields: Vec<u64> =
        stat.split_whitespace().skip(13).take(2).filter_map(|field| field.parse().ok()).collect();
    fields.iter().sum::<u64>() * 10
}

fn main() {
    let pid: u32 = std::env::args().nth(1).and_then(|pid| pid.parse().ok()).expect("a process id");
    let memory = live::Live::open(pid);
    let facts = Facts { python: live::Live::python(pid), ..live::Live::facts(pid) };
    if let Some(path) = std::env::args().nth(2) {
        Dump::of(&memory).write(std::fs::File::create(path).expect("a file")).expect("it can be written");
        println!("{facts:#x?}");
        return;
    }
    let begun = cpu_ms();
    let mut found = scan(&memory, &facts, &Settings::default());
    found.cost.cpu_ms = cpu_ms() - begun;
    found.types.truncate(25);
    found.mappings.truncate(5);
    found.native.unowned_sizes.truncate(5);
    println!("{}", serde_json::to_string_pretty(&found).expect("json"));
}
