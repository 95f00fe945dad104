//! `lowtide check`: gates for CI, on a file or on a command that is recorded for it.
//!
//! A gate on a number has an answer wherever the number is known. A gate on the verdict may have none yet: that is an exit code of its own,
//! so that a CI can choose to wait. Not here: how the outcome looks (see `render::gates`).

use super::recorder;
use super::run::program_name;
use super::subject::{self, Answer, What};
use crate::cli::{CheckArgs, CheckFormat, Format, GateArgs, RecordingArgs, StepRange};
use crate::failure::{COULD_NOT, Failure};
use crate::render::{self, Console};
use lowtide_model::{Axis, Bytes, Exit, Recording};
use lowtide_run::{Finished, JobSpec, Terminal};
use lowtide_store::import::left_out;
use lowtide_verdict::{Fits, Group, Point, Trace, Verdict, summarize};
use std::path::PathBuf;
use std::process::ExitCode;

/// A gate failed.
const FINDING: u8 = 1;
/// A gate on the verdict can't be decided yet.
const TOO_EARLY: u8 = 3;

/// What a gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Says {
    Pass,
    TooEarly,
    CouldNot,
    Fail,
}

/// One gate on one curve.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// The flag that set it, or `command`.
    pub(crate) flag: String,
    pub(crate) file: String,
    pub(crate) says: Says,
    /// One sentence with the number.
    pub(crate) text: String,
}

pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let set = [args.gates.no_leak, args.gates.fits, args.gates.max.is_some(), args.gates.max_range.is_some()];
    if !set.contains(&true) {
        let hint = "add --no-leak, --fits, --max SIZE or --max-range SIZE";
        return Err(Failure::new("there is no gate to check").hint(hint));
    }
    if args.gates.steps.is_some() && args.gates.max.is_none() && args.gates.max_range.is_none() {
        return Err(Failure::new("--steps says where --max and --max-range look, and neither is there")
            .hint("leave it out: --no-leak and --fits judge the whole run"));
    }
    let mut gates = Vec::new();
    let mut files = args.files.clone();
    if !args.command.is_empty() {
        let (recording, ended) = record(args)?;
        gates.push(Gate { file: recording.display().to_string(), ..ended });
        files.push(recording);
    }
    let gathered = subject::gather(&files, &args.about)?;
    gates.extend(gathered.failures.iter().map(|(file, failure)| could_not("read", file, failure)));
    let mut failures: Vec<Failure> = gathered.failures.into_iter().map(|(_, failure)| failure).collect();
    for answer in gathered.subjects.into_iter().map(subject::answer) {
        gates.extend(of_answer(&args.gates, &answer, &mut failures));
    }
    report(args, &gates)?;
    // What a person reads on standard output says it already.
    if args.format != CheckFormat::Text || args.report.is_some() {
        failures.iter().for_each(|failure| render::complain(&failure.text()));
    }
    Ok(ExitCode::from(code(&gates)))
}

/// A finding comes first, then what could not be done, then what is not known yet.
fn code(gates: &[Gate]) -> u8 {
    match gates.iter().map(|gate| gate.says).max().unwrap_or(Says::Pass) {
        Says::Fail => FINDING,
        Says::CouldNot => COULD_NOT,
        Says::TooEarly => TOO_EARLY,
        Says::Pass => 0,
    }
}

fn could_not(gate: &str, file: &str, failure: &Failure) -> Gate {
    let (flag, file) = (gate.to_owned(), file.to_owned());
    Gate { flag, file, says: Says::CouldNot, text: failure.sentence() }
}

fn report(args: &CheckArgs, gates: &[Gate]) -> Result<(), Failure> {
    let text = match args.format {
        CheckFormat::Text => render::gates_text(gates, render::text_width()),
        CheckFormat::Json => render::gates_json(gates),
        CheckFormat::Junit => render::gates_junit(gates),
        CheckFormat::Github => render::gates_github(gates),
    };
    match &args.report {
        None => render::say(&text)?,
        Some(file) => std::fs::write(file, text)
            .map_err(|error| Failure::new(format!("cannot write {}", file.display())).because(error))?,
    }
    Ok(())
}

/// Records the command. Gives its recording, and how it ended as a gate of its own.
fn record(args: &CheckArgs) -> Result<(PathBuf, Gate), Failure> {
    let program = args.command.first().map(program_name).unwrap_or_default();
    let recording = RecordingArgs {
        out: args.out.clone(),
        interval: args.interval,
        name: None,
        quiet: true,
        on: Vec::new(),
        format: Format::Text,
        no_scan: false,
        source: None,
    };
    let options = recorder::options(&recording, &program)?;
    let job = JobSpec { argv: args.command.clone(), terminal: Terminal::Callers };
    let finished = lowtide_run::run(job, &options, &mut Console::new(true))?;
    let gate = ended(&finished);
    Ok((finished.recording?, gate))
}

fn ended(finished: &Finished) -> Gate {
    let says = if finished.exit == Exit::Code(0) { Says::Pass } else { Says::Fail };
    let mut text = match finished.exit {
        Exit::Code(0) => "the command ended well".to_owned(),
        Exit::Code(code) => format!("the command failed with exit code {code}"),
        Exit::Signal(signal) => format!("the command was ended by signal {signal}"),
        Exit::Unknown => "how the command ended is not known".to_owned(),
    };
    for oom in &finished.ooms {
        text = format!("{text}; {}", oom.text);
    }
    Gate { flag: "command".to_owned(), file: String::new(), says, text }
}

/// What one gate finds, or why it can't look.
type Found = Result<(Says, String), Failure>;

/// Every gate that was set, on one curve or recording.
fn of_answer(args: &GateArgs, answer: &Answer, failures: &mut Vec<Failure>) -> Vec<Gate> {
    let set: [(&str, Option<Found>); 4] = [
        ("no-leak", args.no_leak.then(|| Ok(no_leak(answer)))),
        ("fits", args.fits.then(|| fits(answer))),
        ("max", args.max.map(|most| max(most, args.steps, answer))),
        ("max-range", args.max_range.map(|most| max_range(most, args.steps, answer))),
    ];
    let file = &answer.subject.label;
    let mut gates = Vec::new();
    for (gate, found) in set.into_iter().filter_map(|(gate, found)| Some((gate, found?))) {
        match found {
            Ok((says, text)) => {
                let text = format!("{text}{}", passed_over(answer, says));
                gates.push(Gate { flag: gate.to_owned(), file: file.clone(), says, text });
            }
            Err(failure) => {
                gates.push(could_not(gate, file, &failure));
                failures.push(failure);
            }
        }
    }
    gates
}

/// What a gate that passes did not look at, or it would pass a leak there over in silence.
fn passed_over(answer: &Answer, says: Says) -> String {
    match &answer.subject.what {
        What::Curve(curve) if says == Says::Pass => {
            left_out(curve).map_or(String::new(), |note| format!("; {note}"))
        }
        What::Curve(_) | What::Recording(_) => String::new(),
    }
}

/// Any leak counts, also one of a process beside the trainer.
fn no_leak(answer: &Answer) -> (Says, String) {
    let main = &answer.run.main;
    let mut all = std::iter::once(main).chain(&answer.run.findings);
    if let Some(leak) = all.find(|verdict| verdict.group == Group::Leak) {
        let process = render::process_words(leak).map(|process| format!(" ({process})"));
        return (Says::Fail, format!("{}{}", leak.headline, process.unwrap_or_default()));
    }
    let says = if main.group == Group::TooEarly { Says::TooEarly } else { Says::Pass };
    (says, main.headline.clone())
}

/// The outcome decides. While several explanations stand, it is that of the worst one: good news then is news, bad news
/// is not.
fn fits(answer: &Answer) -> Found {
    let main: &Verdict = &answer.run.main;
    let outcome = &main.outcome;
    if let Some(failure) = answer.subject.without_level() {
        return Err(failure);
    }
    let Some(limit) = outcome.limit_bytes else {
        return Err(Failure::new(format!(
            "cannot say whether {} fits: no limit is known",
            answer.subject.label
        ))
        .hint("say where memory ends: --limit 32GiB"));
    };
    let says = match outcome.is {
        Fits::Fits | Fits::Tight => Says::Pass,
        Fits::Exceeds if main.group == Group::TooEarly && outcome.death.is_none() => Says::TooEarly,
        Fits::Exceeds => Says::Fail,
        Fits::Unknown => Says::TooEarly,
    };
    let limit = render::both(limit);
    let text = match (outcome.is, outcome.needs_bytes) {
        (Fits::Fits, Some(needs)) => format!("it fits: needs at most {} of {limit}", render::both(needs)),
        (Fits::Tight, Some(needs)) => format!("tight: needs up to {} of {limit}", render::both(needs)),
        (Fits::Fits | Fits::Tight | Fits::Exceeds | Fits::Unknown, _) => main.headline.clone(),
    };
    Ok((says, text))
}

fn max(most: Bytes, steps: Option<StepRange>, answer: &Answer) -> Found {
    let whole = match (&answer.subject.what, steps) {
        (What::Recording(recording), None) => peak_of(recording),
        (What::Recording(_) | What::Curve(_), _) => None,
    };
    let peak = match whole {
        Some(peak) => peak,
        None => {
            let trace = measured(answer);
            Bytes::from_f64(highest(looked_at(&trace, steps, answer)?))
        }
    };
    if let Some(failure) = answer.subject.without_level() {
        // It stands at least as high as it is known to have risen.
        let least = format!("the peak{} is at least {peak}, above {most}", of_steps(steps));
        return if peak > most { Ok((Says::Fail, least)) } else { Err(failure) };
    }
    let says = if peak > most { Says::Fail } else { Says::Pass };
    let verb = if peak > most { "above" } else { "not above" };
    Ok((says, format!("the peak{} is {peak}, {verb} {most}", of_steps(steps))))
}

/// The tree as the end of a run tells it, and not below what the kernel saw of one process between two samples.
fn peak_of(recording: &Recording) -> Option<Bytes> {
    let seen = (!recording.samples.is_empty()).then(|| summarize(recording).total.peak_bytes);
    let kernel = recording.processes.iter().filter_map(|process| process.peak_rss).max();
    seen.max(kernel).max(recording.meta.job_peak_bytes.map(Bytes))
}

fn max_range(most: Bytes, steps: Option<StepRange>, answer: &Answer) -> Found {
    let trace = measured(answer);
    let points = looked_at(&trace, steps, answer)?;
    let (high, low) = (highest(points), points.iter().map(|point| point.low).fold(f64::INFINITY, f64::min));
    let range = Bytes::from_f64(high - low);
    let says = if range > most { Says::Fail } else { Says::Pass };
    let verb = if range > most { "more than" } else { "not more than" };
    let (low, high) = (Bytes::from_f64(low), Bytes::from_f64(high));
    Ok((says, format!("memory moved by {range}{}, {verb} {most}: between {low} and {high}", of_steps(steps))))
}

/// What a number is held against: the curve, or the whole tree of a recording.
fn measured(answer: &Answer) -> Trace {
    match &answer.subject.what {
        What::Curve(curve) => Trace::of_curve(curve),
        What::Recording(recording) => Trace::of_tree(recording),
    }
}

fn highest(points: &[Point]) -> f64 {
    points.iter().map(|point| point.high).fold(f64::NEG_INFINITY, f64::max)
}

/// The part of a curve that a number is held against; an empty one can't be.
fn looked_at<'a>(
    trace: &'a Trace,
    steps: Option<StepRange>,
    answer: &Answer,
) -> Result<&'a [Point], Failure> {
    let label = &answer.subject.label;
    let Some(StepRange { from, to }) = steps else {
        let empty = || {
            let hint =
                "a command that ends before its first sample leaves none; --interval 10ms looks sooner";
            Failure::new(format!("{label} holds no samples")).hint(hint)
        };
        return if trace.points.is_empty() { Err(empty()) } else { Ok(&trace.points) };
    };
    if matches!(trace.axis, Axis::Seconds | Axis::Epoch) {
        let failure = Failure::new(format!("{label} does not say at which step its samples were taken"));
        return Err(failure.hint("leave out --steps, or name the column of steps with --x"));
    }
    let points = trace.between(from, to);
    if points.is_empty() {
        let failure = Failure::new(format!("{label} has no samples{}", of_steps(steps)));
        let known = trace.ends().map(|(first, last)| format!("its steps go from {first} to {last}"));
        return Err(known.into_iter().fold(failure, Failure::because));
    }
    Ok(points)
}

fn of_steps(steps: Option<StepRange>) -> String {
    match steps {
        None => String::new(),
        Some(StepRange { from, to }) if from.is_finite() && to.is_finite() => {
            format!(" in steps {from} to {to}")
        }
        Some(StepRange { from, .. }) if from.is_finite() => format!(" from step {from} on"),
        Some(StepRange { to, .. }) => format!(" up to step {to}"),
    }
}
