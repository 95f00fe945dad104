//! `lowtide mark`: one mark of the job, from a shell inside it.

use super::{recorder, watch};
use crate::cli::{MarkArgs, MarkPhaseArgs};
use crate::failure::Failure;
use lowtide_model::MarkPhase;
use lowtide_run::{SOCKET_NAME, SOCKET_VARIABLE};
use lowtide_wire::{Answer, Ask, LineReader, Said, encode};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The recorder opens its socket a moment after the job begins.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn mark(args: &MarkArgs) -> Result<ExitCode, Failure> {
    let said = said(args)?;
    let mut stream = connect(args.run.as_deref())?;
    let failed = |error: std::io::Error| Failure::new("the recorder did not take the mark").because(error);
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.write_all(&encode(&Ask::Mark(said))).map_err(failed)?;
    match answer(&mut stream).map_err(failed)? {
        Some(Answer::Error { text }) => Err(Failure::new(text)),
        Some(
            Answer::Marked
            | Answer::History { .. }
            | Answer::Snapshot(_)
            | Answer::Scan { .. }
            | Answer::Squeeze { .. },
        ) => Ok(ExitCode::SUCCESS),
        None => Err(Failure::new("the recorder ended before it took the mark")),
    }
}

fn said(args: &MarkArgs) -> Result<Said, Failure> {
    let mut said = Said::named(&args.kind);
    said.number = args.number;
    said.rank = args.rank;
    said.phase = match args.phase {
        MarkPhaseArgs { start: true, .. } => MarkPhase::Start,
        MarkPhaseArgs { end: true, .. } => MarkPhase::End,
        MarkPhaseArgs { .. } => MarkPhase::Point,
    };
    if let Some(object) = &args.extra
        && !said.add(object)
    {
        return Err(Failure::new("--extra is no JSON object, or a very long one")
            .hint("write it like '{\"loss\": 0.3}'"));
    }
    said.checked().ok_or_else(|| {
        Failure::new("a step needs its number, and a number must be finite")
            .hint("write it like `lowtide mark step 120`")
    })
}

/// The recorder that was asked for, else the one the environment names, else the one that records our own process.
fn connect(run: Option<&str>) -> Result<UnixStream, Failure> {
    let none = || {
        Failure::new("no recorder was found for this shell")
            .hint("run it inside a job of `lowtide run`, or name one: --run PID or --run ID")
    };
    if let Some(run) = run {
        let nobody = || {
            Failure::new(format!("no run that is recorded now is called `{run}`")).hint(
                "`lowtide watch` lists them; --run takes a run's id, its recorder's pid or a process of it",
            )
        };
        let found = watch::running().into_iter().find(|one| one.is_called(run)).ok_or_else(nobody)?;
        return UnixStream::connect(&found.socket).map_err(|error| nobody().because(error));
    }
    let named = std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from);
    if let Some(stream) = named.and_then(|path| patiently(&path)) {
        return Ok(stream);
    }
    // The recorder that started the job may be gone and another one watch it.
    let parents = recorder::ancestors(std::process::id());
    let ours = watch::running().into_iter().find(|run| parents.iter().any(|pid| run.holds(*pid)));
    ours.and_then(|run| UnixStream::connect(run.socket).ok()).ok_or_else(none)
}

fn patiently(path: &Path) -> Option<UnixStream> {
    let until = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Some(stream),
            // A socket nobody answers is a dead recorder's.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && Instant::now() < until => {
                if !path.parent().is_some_and(Path::exists) || path.file_name() != Some(SOCKET_NAME.as_ref())
                {
                    return None;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => return None,
        }
    }
}

fn answer(stream: &mut UnixStream) -> std::io::Result<Option<Answer>> {
    let mut lines = LineReader::default();
    let mut buffer = [0; 4096];
    loop {
        if let Some(answer) = lines.next_message() {
            return Ok(answer.ok());
        }
        let length = stream.read(&mut buffer)?;
        if length == 0 || lines.feed(&buffer[..length]).is_err() {
            return Ok(None);
        }
    }
}
