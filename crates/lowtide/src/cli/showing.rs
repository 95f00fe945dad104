//! Flags of the commands that make something to look at: `report`.

use super::AboutArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `lowtide report`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without -o, HTML goes to a file named after FILE in this folder, anything else to standard output."
)]
pub(crate) struct ReportArgs {
    /// A recording, or a curve of another tool
    pub(crate) file: PathBuf,
    /// Where to; - is standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Into what
    #[arg(long, value_enum, default_value_t = ReportTo::Html, conflicts_with = "svg")]
    pub(crate) to: ReportTo,
    /// The main figure alone: the same as --to svg
    #[arg(long)]
    pub(crate) svg: bool,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
}

/// Formats of `lowtide report`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportTo {
    /// One self-contained page
    Html,
    /// The main figure
    Svg,
    /// A bug report for the project whose code grows, paths taken out
    Markdown,
}
