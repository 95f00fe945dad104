//! Sets the stage for tests in a browser and for looking at pages.
//!
//! `stage DIR` writes a set of finished runs; `stage --live FILE SECONDS` writes one that grows while it is watched;
//! `stage --many DIR N` writes N small ones; `stage --long FILE DAYS` writes one of many days;
//! `stage --recent DIR` writes three that end now.

#![allow(clippy::unwrap_used, reason = "a stage that can't be set should stop")]

#[path = "../tests/stage/mod.rs"]
mod stage;

use stage::{Stage, steady};
use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--live", path, seconds] => stage::live(Path::new(path), seconds.parse().unwrap()),
        ["--many", dir, count] => many(Path::new(dir), count.parse().unwrap()),
        ["--long", path, days] => {
            // A row every twelve seconds from five processes: what a mostly flat job leaves.
            let (days, seconds_per_step): (u64, u64) = (days.parse().unwrap(), 12);
            let steps = days * 86_400 / seconds_per_step;
            Stage { steps, seconds_per_step, level: steady, ..Stage::default() }.write(Path::new(path));
        }
        ["--recent", dir] => stage::recent(Path::new(dir)),
        [dir] => stage::all(Path::new(dir)),
        _ => std::process::exit(2),
    }
}

/// Writes one and copies it under other names: every file of its own would wait for the disk ten thousand times.
fn many(dir: &Path, count: u32) {
    let names = |n: u32| [format!("{:08x}", 0xa000_0000 + n), format!("sweep {n:06}")];
    let [id, name] = names(0);
    let first = dir.join("sweep-0.tide");
    Stage { id, name, steps: 24, ..Stage::default() }.write(&first);
    let bytes = std::fs::read(&first).unwrap();
    for n in 1..count {
        let copy =
            names(0).iter().zip(names(n)).fold(bytes.clone(), |bytes, (from, to)| renamed(&bytes, from, &to));
        std::fs::write(dir.join(format!("sweep-{n}.tide")), copy).unwrap();
    }
}

/// The same bytes with one text put in the place of another of the same length: SQLite keeps both alike.
fn renamed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    let mut out = bytes.to_vec();
    for at in 0..bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from) {
            out[at..at + to.len()].copy_from_slice(to);
        }
    }
    out
}
