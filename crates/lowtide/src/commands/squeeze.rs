//! `lowtide squeeze`: what cleaning up would give back, measured by doing it once.
//!
//! The recorder asks the agent inside the process and gathers its figures; here they are only asked for and shown.

use super::asking;
use super::watch::running;
use crate::cli::{Format, SqueezeArgs};
use crate::failure::Failure;
use crate::render;
use lowtide_run::squeezing::Squeezed;
use lowtide_wire::{Answer, Ask};
use std::process::ExitCode;
use std::time::Duration;

/// Three ways, each watched for ten steps: the recorder gives up long before this.
const PATIENCE: Duration = Duration::from_hours(24);

pub(crate) fn squeeze(args: &SqueezeArgs) -> Result<ExitCode, Failure> {
    let report = ask(args.pid)?;
    let text = match args.format {
        Format::Text => render::squeeze_text(&report),
        Format::Json => format!("{}\n", serde_json::to_value(&report).unwrap_or_default()),
    };
    render::say(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn ask(pid: u32) -> Result<Squeezed, Failure> {
    let cannot = || Failure::new(format!("process {pid} was not squeezed"));
    let Some(run) = running().into_iter().find(|run| run.holds(pid)) else {
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            return Err(cannot().because("there is no such process"));
        }
        return Err(cannot().because("no recorder of lowtide's has it, so there is no agent in it that could clean up").hint(
            "start the job with `lowtide run`; into a Python 3.14 that already runs, `lowtide watch --agent PID` brings the agent",
        ));
    };
    let answer = asking::ask(&run.socket, &Ask::Squeeze { pid: run.meant(pid) }, PATIENCE);
    match answer.map_err(|why| cannot().because(why))? {
        Answer::Squeeze { report } => serde_json::from_value(report).map_err(|error| cannot().because(error)),
        Answer::Error { text } => Err(cannot().because(text)),
        Answer::History { .. } | Answer::Snapshot(_) | Answer::Marked | Answer::Scan { .. } => {
            Err(cannot().because("its recorder answered something else"))
        }
    }
}
