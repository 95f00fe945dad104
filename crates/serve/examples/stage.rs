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

const SECOND: i64 = 1_000_000_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--live", path, seconds] => stage::live(Path::new(path), seconds.parse().unwrap()),
        ["--many", dir, count] => (0..count.parse().unwrap()).for_each(|n: u32| {
            let run = Stage {
                id: format!("{n:08x}"),
                name: format!("sweep {n}"),
                steps: 24,
                started: i64::from(n) * 60 * SECOND,
                ..Stage::default()
            };
            run.write(&Path::new(dir).join(format!("sweep-{n}.tide")));
        }),
        ["--long", path, days] => {
            let days: u64 = days.parse().unwrap();
            Stage { steps: days * 86_400 / 4, level: steady, ..Stage::default() }.write(Path::new(path));
        }
        ["--recent", dir] => stage::recent(Path::new(dir)),
        [dir] => stage::all(Path::new(dir)),
        _ => std::process::exit(2),
    }
}
