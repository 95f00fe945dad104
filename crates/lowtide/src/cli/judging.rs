//! Flags of the commands that judge: `explain`, `check`, `compare`.

use super::Format;
use super::size::parse_size;
use crate::duration;
use clap::{Args, ValueEnum};
use lowtide_model::{Bytes, Context};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What a file does not say of itself.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "What the file does not say")]
pub(crate) struct AboutArgs {
    /// Column, key or tag that holds x
    #[arg(long, value_name = "NAME")]
    pub(crate) x: Option<String>,
    /// Column, key or tag that holds memory
    #[arg(long, value_name = "NAME")]
    pub(crate) y: Option<String>,
    /// Unit of memory: bytes, KB, MB, GB, KiB, MiB, GiB [default: as the file says; MB is 10^6]
    #[arg(long)]
    pub(crate) unit: Option<String>,
    /// Examples in the data set; several, one a curve: 663,300,100
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = positive)]
    pub(crate) examples: Vec<f64>,
    /// Examples a micro-batch
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) batch: Option<f64>,
    /// Micro-batches a step (gradient accumulation)
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) accum: Option<f64>,
    /// Processes that share the data set
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) world_size: Option<f64>,
    /// Passes over the data that are planned
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) epochs: Option<f64>,
    /// Steps in one pass over the data
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) epoch_steps: Option<f64>,
    /// The run goes on: a leak is called only when it shows twice (a recording tells this by itself)
    #[arg(long)]
    pub(crate) running: bool,
    /// Where memory ends: 32GB is 32 x 10^9 bytes, 32GiB is 32 x 2^30
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) limit: Option<Bytes>,
}

impl AboutArgs {
    /// As the engine takes it; the size of the data set may differ from curve to curve.
    pub(crate) fn context(&self, examples: Option<f64>) -> Context {
        Context {
            examples,
            batch: self.batch,
            accum: self.accum,
            world_size: self.world_size,
            epochs: self.epochs,
            epoch_steps: self.epoch_steps,
            limit: self.limit,
            limit_from: self.limit.map(|_| "--limit".to_owned()),
            ..Context::default()
        }
    }
}

/// `lowtide explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Reads recordings (.tide), curve JSON, CSV and TSV, W&B exports, plain training logs, TensorBoard events, \
Prometheus query_range JSON, and what mprof, psrecord, ps, free and docker stats print. `-` is standard input.\n\
A folder gives every run in it, and says which one differs."
)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ExplainArgs {
    /// Recordings, curves of other tools, or folders of them
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Judge the files together, as runs of one program with different data sizes
    #[arg(long)]
    pub(crate) together: bool,
    /// Print the whole reasoning
    #[arg(long)]
    pub(crate) why: bool,
    /// Draw curve, floor and phases
    #[arg(long)]
    pub(crate) plot: bool,
    /// With --format json: the other findings of a recording too, one object a line
    #[arg(long)]
    pub(crate) all: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
}

/// `lowtide check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 every gate passed; 1 a gate failed, or the command did; 2 lowtide could not do it; \
3 too early to say (only --no-leak and --fits can be).\n\
With `-- CMD` the command runs under the recorder first, and its recording is what is checked."
)]
pub(crate) struct CheckArgs {
    /// Recordings, curves of other tools, or folders of them
    #[arg(value_name = "FILE", required_unless_present = "command", conflicts_with = "command")]
    pub(crate) files: Vec<PathBuf>,
    /// Write the report to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    pub(crate) format: CheckFormat,
    /// With CMD: write the recording to this file instead of the runs folder
    #[arg(long, value_name = "FILE", requires = "command")]
    pub(crate) out: Option<PathBuf>,
    /// With CMD: time between two samples, 10ms to 10m
    #[arg(long, value_name = "TIME", value_parser = duration::parse_interval, requires = "command")]
    pub(crate) interval: Option<Duration>,
    /// A command to record and check in one go
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) gates: GateArgs,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
}

/// The gates; at least one.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Gates")]
pub(crate) struct GateArgs {
    /// Fails on a leak; passes a cache that fills, a warm-up, spikes
    #[arg(long)]
    pub(crate) no_leak: bool,
    /// Fails when the memory that will be needed is more than there is
    #[arg(long)]
    pub(crate) fits: bool,
    /// Fails when memory was ever above this
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max: Option<Bytes>,
    /// Fails when memory moved by more than this between its lowest and its highest
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_range: Option<Bytes>,
    /// Look at these steps only, for --max and --max-range: 90..120, 90.., ..120
    #[arg(long, value_name = "A..B", value_parser = steps)]
    pub(crate) steps: Option<StepRange>,
}

/// A stretch of steps, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepRange {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// Formats of `lowtide check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// For people
    Text,
    /// One object a line
    Json,
    /// For CI systems that show test results
    Junit,
    /// Annotations of GitHub Actions
    Github,
}

/// `lowtide compare`.
#[derive(Debug, Args)]
#[command(after_help = "Two files: lowtide compare before.tide after.tide\n\
Several runs a side: lowtide compare --a old1.tide old2.tide old3.tide --b new1.tide new2.tide new3.tide")]
pub(crate) struct CompareArgs {
    /// The two runs: before, after
    #[arg(num_args = 2, value_names = ["A", "B"], required_unless_present_any = ["a", "b"], conflicts_with_all = ["a", "b"])]
    pub(crate) pair: Vec<PathBuf>,
    /// Runs of the first side
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "b")]
    pub(crate) a: Vec<PathBuf>,
    /// Runs of the second side
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "a")]
    pub(crate) b: Vec<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
}

fn positive(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().parse().ok();
    let good = number.filter(|number| number.is_finite() && *number > 0.0);
    good.ok_or_else(|| format!("`{text}` is not a number above zero"))
}

fn steps(text: &str) -> Result<StepRange, String> {
    let bad = || format!("`{text}` is no stretch of steps; write it like 90..120, 90.. or ..120");
    let (from, to) = text.split_once("..").ok_or_else(bad)?;
    let end = |text: &str, open: f64| match text.trim() {
        "" => Some(open),
        number => number.parse().ok().filter(|number: &f64| number.is_finite()),
    };
    let from = end(from, f64::NEG_INFINITY).ok_or_else(bad)?;
    let to = end(to.trim_start_matches('='), f64::INFINITY).ok_or_else(bad)?;
    let bounded = from.is_finite() || to.is_finite();
    if bounded && from <= to { Ok(StepRange { from, to }) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_of_steps_may_be_open_at_either_end() {
        assert_eq!(steps("90..120"), Ok(StepRange { from: 90.0, to: 120.0 }));
        assert!(steps("90..").unwrap().to.is_infinite());
        assert!(steps("..120").unwrap().from.is_infinite());
        for bad in ["", "90", "..", "120..90", "a..b", "nan.."] {
            assert!(steps(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_size_of_a_data_set_is_above_zero() {
        assert_eq!(positive("663"), Ok(663.0));
        for bad in ["0", "-3", "inf", "nan", "many"] {
            assert!(positive(bad).is_err(), "{bad}");
        }
    }
}
