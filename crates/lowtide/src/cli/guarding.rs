//! The flags of `lowtide run --guard`.

use super::size::parse_size;
use crate::duration;
use clap::Args;
use lowtide_model::Bytes;
use nix::sys::signal::Signal;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How a job is guarded.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Guard")]
pub(crate) struct GuardArgs {
    /// Ask the job to save and stop while one more step and one save still fit into memory (docs/guard.md)
    #[arg(long)]
    pub(crate) guard: bool,
    /// A limit lower than those found (cgroups, Slurm, address space, machine), for forecasts and the guard [default: auto]
    #[arg(long, value_name = "auto|SIZE", value_parser = parse_limit)]
    pub(crate) limit: Option<Limit>,
    /// Start the job again from its newest complete checkpoint, up to N times
    #[arg(long, value_name = "N", requires = "guard", default_value_t = 0, hide_default_value = true)]
    pub(crate) resume: u32,
    /// For a known leak: save, stop and start again every K steps
    #[arg(long, value_name = "K", requires = "guard", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) chunk_steps: Option<u64>,
    /// For a known leak: save, stop and start again after this time
    #[arg(long, value_name = "TIME", requires = "guard", conflicts_with = "chunk_steps", value_parser = duration::parse)]
    pub(crate) chunk_time: Option<Duration>,
    /// A signal on which the job saves and stops, TERM or USR1 say
    #[arg(long, value_name = "SIGNAL", requires = "guard", value_parser = parse_signal)]
    pub(crate) stop_signal: Option<Signal>,
    /// End a job that was asked and has not stopped by then, a save that hangs say [default: leave it alone]
    #[arg(long, value_name = "TIME", requires = "guard", value_parser = duration::parse)]
    pub(crate) stop_within: Option<Duration>,
    /// A folder of checkpoints, beside those the job tells of (repeatable)
    #[arg(long, value_name = "DIR", requires = "guard")]
    pub(crate) checkpoints: Vec<PathBuf>,
    /// How to start again: arguments to add, or a whole command, with {checkpoint} in it
    #[arg(long, value_name = "TEMPLATE", requires = "guard")]
    pub(crate) resume_with: Option<String>,
    /// Put the job into a memory cgroup of its own, so that it dies alone when it takes too much
    #[arg(long)]
    pub(crate) isolate: bool,
    /// The limit of that cgroup
    #[arg(long, value_name = "SIZE", requires = "isolate", value_parser = parse_size)]
    pub(crate) max: Option<Bytes>,
}

/// `--limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Whatever holds.
    Auto,
    /// This, or whatever is lower.
    At(Bytes),
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    if text == "auto" {
        return Ok(Limit::Auto);
    }
    parse_size(text).map(Limit::At).map_err(|error| format!("{error}; or `auto`"))
}

fn parse_signal(text: &str) -> Result<Signal, String> {
    let upper = text.to_ascii_uppercase();
    let name = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    let signal = Signal::from_str(&name)
        .map_err(|_| format!("`{text}` is not a signal; write it like TERM or USR1"))?;
    if matches!(signal, Signal::SIGKILL | Signal::SIGSTOP) {
        return Err(format!("no program can save on {name}"));
    }
    Ok(signal)
}
