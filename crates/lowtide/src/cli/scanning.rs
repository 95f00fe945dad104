//! The flags of `lowtide scan` and `lowtide squeeze`.

use super::Format;
use crate::duration;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `lowtide scan`.
#[derive(Debug, Args)]
#[command(
    after_help = "Reads only pages that are in memory, writes nothing into the process and does not stop it (unless --stop).\n\
Types, sizes and names are shown and saved, never a value of your data; a dict key that reads like a name counts as one.\n\
A process of `lowtide run` is read by its recorder; any other needs the right to trace it (same user, and see `lowtide doctor`)."
)]
pub(crate) struct ScanArgs {
    /// The process, or a scan that was saved
    #[arg(value_name = "PID|FILE")]
    pub(crate) of: String,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// Scan again after this time and say what grew
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, conflicts_with_all = ["steps", "against"])]
    pub(crate) length: Option<Duration>,
    /// Scan again after so many steps of the job and say what grew, per step
    #[arg(long, value_name = "N", conflicts_with = "against", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) steps: Option<u64>,
    /// Say what grew since this saved scan
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Save the scan as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Hold the process still while it is read, for at most half a second
    #[arg(long)]
    pub(crate) stop: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// `lowtide squeeze`.
#[derive(Debug, Args)]
#[command(
    after_help = "It changes the process: the agent inside it cleans up once, at a step's end or between two bytecodes of its main thread.\n\
What gave something back is looked at again ten steps (or ten seconds) later, before the next way is tried.\n\
Gradients are never zeroed. Needs lowtide's agent in the process: a Python that `lowtide run` started."
)]
pub(crate) struct SqueezeArgs {
    /// The process, one of a job that lowtide records (the recorder's own pid means the largest)
    #[arg(value_name = "PID")]
    pub(crate) pid: u32,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}
