//! Every command and flag, declared once: parsing, help, completions and the man page all come from here.

mod guarding;
mod judging;
mod scanning;
mod showing;
mod size;

pub(crate) use guarding::{GuardArgs, Limit as GuardLimit};
pub(crate) use judging::{AboutArgs, CheckArgs, CheckFormat, CompareArgs, ExplainArgs, GateArgs, StepRange};

pub(crate) use scanning::{ScanArgs, SqueezeArgs};
pub(crate) use showing::{ReportArgs, ReportTo, ServeArgs};

use crate::duration;
use crate::relay::StepPattern;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Memory truth for training jobs.
#[derive(Debug, Parser)]
#[command(name = "lowtide", version, about, long_about = None, disable_help_subcommand = true)]
#[command(
    after_help = "Recordings go to $LOWTIDE_DIR, else $XDG_STATE_HOME/lowtide/runs, else ~/.local/state/lowtide/runs."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Record a command and everything it starts
    Run(RunArgs),
    /// Look at a job that already runs, or follow a running recording
    Watch(WatchArgs),
    /// Say whether memory leaks, fills a cache, warms up or spikes, and whether it fits: from a recording or any curve
    Explain(ExplainArgs),
    /// Say what a process holds, by type and by holder; with --for, what grows
    Scan(ScanArgs),
    /// Say what cleaning up would give back: garbage collection, allocator trim, GPU cache, each measured
    Squeeze(SqueezeArgs),
    /// Gate a run in CI: fail on a leak, on too much memory, on memory that moves
    Check(CheckArgs),
    /// Say which process, which kind of memory and which phase differ between runs, and whether it is more than noise
    Compare(CompareArgs),
    /// Write one page to share: verdict, curve, evidence, processes, in one HTML file that opens anywhere
    Report(ReportArgs),
    /// Show all recordings of a folder in a browser, live while they run, with metrics for Prometheus
    Serve(ServeArgs),
    /// List recordings: command, length, peak, state
    List(ListArgs),
    /// Turn a recording into CSV or a Perfetto trace, or send it to a metrics engine
    Export(ExportArgs),
    /// Mark a step, an epoch, an evaluation or a save, from a shell inside the job
    Mark(MarkArgs),
    /// Say what can be read here, which limits hold, and what to do about what is missing
    Doctor(DoctorArgs),
    /// Record a small real job and show what lowtide makes of it (about 20 s, needs nothing)
    Demo(DemoArgs),
    /// Print shell completions
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one file a command into a folder
    Man {
        /// Folder for lowtide.1, lowtide-run.1 and so on
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Print this help, or that of a command
    #[command(hide = true)]
    Help {
        /// Which command
        of: Option<String>,
    },
    /// Stand between the job and the terminal (started by `run --screen`)
    #[command(hide = true)]
    Relay(RelayArgs),
    /// Read GPU memory, one JSON line an interval (started by the recorder)
    #[command(hide = true)]
    GpuHelper {
        /// Milliseconds between two readings
        #[arg(long, default_value_t = 1000)]
        every_ms: u64,
    },
    /// Scan one process, a task as JSON on standard input (started by the recorder and by `scan`)
    #[command(hide = true)]
    ScanHelper,
    /// One part of the demo's job
    #[command(hide = true)]
    DemoJob {
        /// Which part
        part: DemoPart,
    },
}

/// `lowtide run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: the command's own (128 + N when signal N ended it); 75 when the guard stopped it in order to\n\
resume and it was not resumed; 2 when lowtide could not start it.\n\
Signals sent to lowtide reach the command exactly once. If lowtide is killed, the command runs on."
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) recording: RecordingArgs,
    /// Show the live view around the command's own output
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) screen: bool,
    /// Leave Python processes alone: no steps, epochs and phases without the program's own marks
    #[arg(long)]
    pub(crate) no_agent: bool,
    /// Find steps in the command's output: the group `step`, or the first group, is the number, as in 'step (\d+)'. Output
    /// then goes through a relay
    #[arg(long, value_name = "REGEX", value_parser = StepPattern::from_str)]
    pub(crate) step_pattern: Option<StepPattern>,
    /// Send the run's series to a metrics engine while it runs, `http://vm:8428` say (Prometheus remote write)
    #[arg(long, value_name = "URL", value_parser = parse_receiver)]
    pub(crate) push: Option<String>,
    #[command(flatten)]
    pub(crate) guarding: GuardArgs,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What `run` and `watch` have in common.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordingArgs {
    /// Write the recording to this file instead of the runs folder
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Time between two samples, 10ms to 10m [default: 1s, quicker while memory moves, slower while it is flat]
    #[arg(long, value_name = "TIME", value_parser = duration::parse_interval)]
    pub(crate) interval: Option<Duration>,
    /// Name of the run [default: the program's name]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Print nothing of lowtide's own
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Run CMD when something happens, with the facts as JSON on its standard input: forecast=CMD, verdict=CMD, stop=CMD, end=CMD (repeatable)
    #[arg(long = "on", value_name = "WHEN=CMD", value_parser = parse_hook)]
    pub(crate) on: Vec<(lowtide_run::HookWhen, String)>,
    /// How to print the summary, which goes to standard error: standard output is the command's
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Don't look into the process that grows most
    #[arg(long)]
    pub(crate) no_scan: bool,
    /// How forks and exits are learnt [default: the best this system has]
    #[arg(long, value_enum, hide = true)]
    pub(crate) source: Option<SourceArg>,
}

/// `lowtide watch`.
#[derive(Debug, Args)]
#[command(after_help = "Without an argument: lists what looks like a training job here.\n\
A wrapper's pid (uv run, sh -c, torchrun) leads to the process below it that holds the memory.\n\
A job that `lowtide run` records is followed through its recorder; any other is recorded from now on.")]
pub(crate) struct WatchArgs {
    /// The process, or any of its parents or children
    pub(crate) pid: Option<u32>,
    /// The job whose command contains this text
    #[arg(long = "match", value_name = "TEXT", conflicts_with = "pid")]
    pub(crate) matching: Option<String>,
    /// Bring lowtide's agent into the job's Python (3.14 and later), for steps and epochs; without it the job is not touched
    #[arg(long)]
    pub(crate) agent: bool,
    /// Plain lines instead of the full screen
    #[arg(long)]
    pub(crate) lines: bool,
    /// Be the recorder: no screen
    #[arg(long, hide = true)]
    pub(crate) recorder: bool,
    /// Where the process puts its mark pages (given by `lowtide.watch()`)
    #[arg(long, hide = true, value_name = "DIR", requires = "recorder")]
    pub(crate) marks: Option<PathBuf>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    pub(crate) length: Option<Duration>,
    #[command(flatten)]
    pub(crate) recording: RecordingArgs,
}

/// `lowtide list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Folder of recordings [default: the runs folder]
    pub(crate) dir: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// `lowtide export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The recording
    pub(crate) file: PathBuf,
    /// Into what
    #[arg(long, value_enum)]
    pub(crate) to: ExportTo,
    /// Where to [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// With remote-write: the receiver, `http://vm:8428` say; /api/v1/write is added where there is no path
    #[arg(value_name = "URL", required_if_eq("to", "remote-write"), value_parser = parse_receiver)]
    pub(crate) url: Option<String>,
    /// With remote-write: send what is new until the run ends
    #[arg(long, requires = "url")]
    pub(crate) follow: bool,
    /// With --follow: look at once when standard input is closed (given by `run --push`)
    #[arg(long, hide = true, requires = "follow")]
    pub(crate) until_closed: bool,
    /// With remote-write: how long a receiver that is away is waited for
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "1m")]
    pub(crate) wait: Duration,
}

/// Formats of `lowtide export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportTo {
    /// One row a sample, for spreadsheets and data frames
    Csv,
    /// Counter tracks for the Perfetto or Chrome trace viewer
    Perfetto,
    /// Series for Prometheus and its kin; sending a run twice changes nothing
    RemoteWrite,
}

/// `lowtide mark`.
#[derive(Debug, Args)]
#[command(
    after_help = "Any language can do the same: write the line `mark step 120` to the socket named by \
$LOWTIDE_SOCKET (docs/marks.md)."
)]
pub(crate) struct MarkArgs {
    /// step, epoch, eval, save, load, info, or a name of your own
    pub(crate) kind: String,
    /// The absolute number, as 120 for step 120 [default: the newest step]
    pub(crate) number: Option<f64>,
    #[command(flatten)]
    pub(crate) phase: MarkPhaseArgs,
    /// More about it, a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) extra: Option<String>,
    /// Rank in a distributed run
    #[arg(long)]
    pub(crate) rank: Option<u32>,
    /// The run to mark: its id, its recorder's pid or a process of it [default: the run this shell is in]
    #[arg(long, value_name = "PID|ID")]
    pub(crate) run: Option<String>,
}

/// Whether it begins, ends or happens.
#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false)]
pub(crate) struct MarkPhaseArgs {
    /// It begins
    #[arg(long)]
    pub(crate) start: bool,
    /// It ends
    #[arg(long)]
    pub(crate) end: bool,
    /// It happens (the default)
    #[arg(long)]
    pub(crate) point: bool,
}

/// `lowtide doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also look at this process: its limits and the signals it catches
    pub(crate) pid: Option<u32>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// `lowtide demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the recording here instead of the runs folder
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `lowtide relay`.
#[derive(Debug, Args)]
pub(crate) struct RelayArgs {
    /// Descriptor of the terminal's master side
    #[arg(long)]
    pub(crate) master: Option<i32>,
    /// Descriptors of pipes that go to standard output and to standard error
    #[arg(long)]
    pub(crate) stdout: Option<i32>,
    #[arg(long)]
    pub(crate) stderr: Option<i32>,
    /// Show no status below the job's output
    #[arg(long)]
    pub(crate) plain: bool,
    /// Find steps
    #[arg(long, value_parser = StepPattern::from_str)]
    pub(crate) step_pattern: Option<StepPattern>,
    /// The recorder's socket
    #[arg(long)]
    pub(crate) socket: PathBuf,
}

/// Parts of the demo's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoPart {
    /// Starts the trainer and waits
    Wrapper,
    /// Fills a cache over its first epoch, with four forked workers beside it
    Trainer,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// How forks and exits are learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceArg {
    /// The kernel's proc connector
    Connector,
    /// perf task records
    Perf,
    /// Listing /proc
    Listing,
}

fn parse_hook(text: &str) -> Result<(lowtide_run::HookWhen, String), String> {
    let (when, command) =
        text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`; write it like end=CMD"))?;
    if command.trim().is_empty() {
        return Err(format!("`{text}` names no command"));
    }
    let when =
        when.parse().map_err(|()| format!("`{when}` is not a moment; use forecast, verdict, stop or end"))?;
    Ok((when, command.to_owned()))
}

fn parse_receiver(text: &str) -> Result<String, String> {
    if lowtide_serve::remote::is_address(text) {
        return Ok(text.to_owned());
    }
    Err("a receiver is an address like http://vm:8428 or https://mimir/api/v1/push".to_owned())
}

/// The verbs people meet first, in the order they need them.
const FIRST: [&str; 5] = ["run", "watch", "explain", "scan", "check"];

/// The whole declaration, with the main verbs first in the help.
pub(crate) fn declaration() -> clap::Command {
    let command = Cli::command();
    let section = |wanted: &dyn Fn(&str) -> bool| {
        command
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set() && wanted(sub.get_name()))
            .map(|sub| {
                format!(
                    "  {:<12} {}\n",
                    sub.get_name(),
                    sub.get_about().map(ToString::to_string).unwrap_or_default()
                )
            })
            .collect::<String>()
    };
    let first = section(&|name| FIRST.contains(&name));
    let more = section(&|name| !FIRST.contains(&name));
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\nCommands:\n{first}\nMore:\n{more}\nOptions:\n{{options}}{{after-help}}\n"
    );
    command.help_template(template)
}
