//! Flags of the commands that make something to look at: `report` and `serve`.

use super::AboutArgs;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
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

/// `lowtide serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "Open the printed address: it holds a token, made anew at every start. From your own machine: ssh -L 7710:127.0.0.1:7710 HOST"
)]
pub(crate) struct ServeArgs {
    /// Folder of recordings [default: the runs folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7710")]
    pub(crate) listen: SocketAddr,
    /// Listen on a Unix socket that only you can open, instead of an address
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    pub(crate) socket: Option<PathBuf>,
    /// Another name under which the page is asked for, behind a proxy say (repeatable)
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Where the token is written for programs that scrape /metrics [default: the private run folder]
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub(crate) token_file: Option<PathBuf>,
}
