//! The project's own tasks: `cargo xtask check|test|package|frameworks|bench|score|guest|arrows`.
//!
//! One tool for people and CI, so that what is green here is green there.

#![allow(clippy::print_stdout, reason = "tasks talk to the person who started them")]

mod arrows;
mod bench;
mod check;
mod commands;
mod guest;
mod score;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask check       fmt, clippy, tests, crate arrows, docs: what must hold before a commit
cargo xtask lint        check without the tests
cargo xtask test        all tests; makes its own Python environment for those that need one
cargo xtask package     only the tests of the Python package, with the program as it is now
cargo xtask frameworks  the agent in real torch, transformers, lightning, keras and accelerate jobs
cargo xtask bench       the promised numbers, measured beside psutil, mprof and psrecord in one run; `bench marks`: the agent's cost
cargo xtask bench guard what a leaking job loses: a bare limit, earlyoom and lowtide side by side
cargo xtask bench scan  who names the cause of growth: lowtide beside tracemalloc, objgraph and memray
cargo xtask bench serve the live page under load: 500 viewers, 10,000 recordings, a run of a week
cargo xtask bench verdict  what judging a million samples takes
cargo xtask score       how often the verdict is right, on curves with known answers
cargo xtask guest       tests in a small virtual machine: cgroup v2, restricted ptrace, other users, 9p
cargo xtask arrows      only the crate arrows
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (verb, rest) = match arguments.split_first() {
        Some((verb, rest)) => (verb.as_str(), rest),
        None => ("help", &[][..]),
    };
    if rest.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let done = match verb {
        "check" => check::check(),
        "lint" => check::lint(),
        "test" => test::test(rest),
        "package" => test::package(rest),
        "frameworks" => test::frameworks(rest),
        "bench" => bench::bench(rest),
        "arrows" => arrows::arrows(),
        "guest" => guest::guest(rest),
        "score" => score::score(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("no such task: {verb}\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
