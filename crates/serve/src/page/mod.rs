//! Everything a page shows of one run, as data: what the report embeds, the API answers and the charts draw.
//!
//! Bounded in size whatever the run's length: curves are thinned so that no peak and no floor is lost. Not here: HTML
//! (see `html`), pictures (see `figure`).

mod curve;
mod future;
mod marks;
mod processes;
mod scan;
mod stack;

pub(crate) use curve::Line;
pub(crate) use future::Future;
pub(crate) use marks::Marked;
pub(crate) use processes::ProcessRow;
pub(crate) use scan::{HolderRow, Scanned, TypeRow};
pub(crate) use stack::{Layer, ROLES, Stacks};

use crate::figure::View;
use lowtide_model::{Axis, EventKind, Recording, RunState};
use lowtide_verdict::{Group, RunVerdict, Source, Summary, Verdict, cut_off_note, rank_of, summarize};
use serde::Serialize;

/// Events a page tells; the newest are kept.
const MOST_EVENTS: usize = 60;

/// Versions a page tells.
const MOST_VERSIONS: usize = 40;

/// Where memory ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LimitLine {
    pub(crate) bytes: f64,
    pub(crate) from: Option<String>,
}

/// A stretch of the curve with a name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Phase {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) name: &'static str,
}

/// The main figure.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figure {
    /// `step`, `seconds`, `sample` or `epoch`.
    pub(crate) axis: Axis,
    /// What the curve shows, in words.
    pub(crate) what: String,
    pub(crate) line: Line,
    /// The floor as the verdict sees it.
    pub(crate) floor: Vec<(f64, f64)>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) marks: Marked,
    pub(crate) limit: Option<LimitLine>,
    /// What each explanation that still fits says will come.
    pub(crate) futures: Vec<Future>,
    /// What is shown at first.
    pub(crate) view: Option<View>,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Happened {
    pub(crate) seconds: f64,
    pub(crate) kind: EventKind,
    pub(crate) text: String,
}

/// What is known of the run beside its memory.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct About {
    pub(crate) run_id: String,
    pub(crate) command: String,
    pub(crate) host: String,
    pub(crate) rank: Option<u32>,
    pub(crate) started_unix_ns: Option<i64>,
    pub(crate) seconds: Option<f64>,
    pub(crate) state: Option<RunState>,
    pub(crate) kernel: String,
    pub(crate) cpus: u32,
    pub(crate) lowtide: String,
    /// How it ended, where that can be told.
    pub(crate) ending: Option<String>,
    /// What was guessed while a foreign curve was read.
    pub(crate) notes: Vec<String>,
}

/// What lowtide itself cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) cpu_percent: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_bytes: u64,
    pub(crate) stall_ms: f64,
    pub(crate) dropped_rows: u64,
}

/// One run as a page shows it.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    /// Always `lowtide.page/1`.
    pub(crate) schema: &'static str,
    pub(crate) name: String,
    pub(crate) about: About,
    pub(crate) verdict: Verdict,
    /// Whether it fits, in words.
    pub(crate) outcome_words: String,
    pub(crate) matters: Option<String>,
    pub(crate) findings: Vec<Verdict>,
    pub(crate) figure: Figure,
    /// What grew and who holds it, where the run was scanned.
    pub(crate) scan: Option<Scanned>,
    pub(crate) stacks: Option<Stacks>,
    pub(crate) summary: Option<Summary>,
    pub(crate) processes: Vec<ProcessRow>,
    /// Processes that are not in the table.
    pub(crate) processes_left_out: usize,
    pub(crate) events: Vec<Happened>,
    /// Versions the job told of itself.
    pub(crate) versions: Vec<String>,
    pub(crate) cost: Option<Cost>,
}

impl Page {
    /// Makes the page of a run from its facts and its answer; `name` is what people call it.
    pub fn new(name: &str, subject: Source<'_>, run: &RunVerdict) -> Self {
        let main = &run.main;
        let mut page = Self {
            schema: "lowtide.page/1",
            name: name.to_owned(),
            about: About::default(),
            outcome_words: main.outcome_words(),
            matters: main.matters.clone(),
            findings: run.findings.clone(),
            figure: figure(subject, main),
            verdict: main.clone(),
            scan: None,
            stacks: None,
            summary: None,
            processes: Vec::new(),
            processes_left_out: 0,
            events: Vec::new(),
            versions: Vec::new(),
            cost: None,
        };
        match subject {
            Source::Recording(recording) => page.tell_recording(recording, run),
            Source::Curve(curve) => page.about.notes.clone_from(&curve.notes),
        }
        page
    }

    fn tell_recording(&mut self, recording: &Recording, run: &RunVerdict) {
        let meta = &recording.meta;
        let summary = summarize(recording);
        self.about = About {
            run_id: meta.run_id.clone(),
            command: meta.argv.join(" "),
            host: meta.host.clone(),
            rank: rank_of(recording),
            started_unix_ns: Some(meta.started_unix_ns),
            seconds: Some(summary.seconds),
            state: meta.state,
            kernel: meta.kernel.clone(),
            cpus: meta.cpus,
            lowtide: meta.lowtide.clone(),
            ending: cut_off_note(recording).or_else(|| processes::ending(recording)),
            notes: Vec::new(),
        };
        self.scan = scan::scanned(recording, &run.roles, &run.main);
        self.stacks = Stacks::of(recording, &run.roles);
        (self.processes, self.processes_left_out) = processes::rows(recording, &run.roles);
        self.events = happened(recording);
        self.versions = versions(recording);
        self.cost = Some(cost(recording, summary.seconds));
        self.summary = Some(summary);
    }

    /// The data as JSON that can stand inside a `<script>` element: no `<`, and nothing a browser takes for the end.
    pub(crate) fn script_json(&self) -> String {
        safe_json(self)
    }
}

/// JSON without the three letters by which foreign text could leave a script element.
pub(crate) fn safe_json<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The main figure of an answer.
pub(crate) fn figure(subject: Source<'_>, main: &Verdict) -> Figure {
    let drawing = &main.drawing;
    let marks = match subject {
        Source::Recording(recording) => Marked::of_recording(recording, drawing.axis),
        Source::Curve(curve) => Marked::of_curve(curve, drawing.pass),
    };
    let limit =
        main.outcome.limit_bytes.map(|bytes| LimitLine { bytes, from: main.outcome.limit_from.clone() });
    let line = Line::of(&drawing.curve);
    let mut figure = Figure {
        axis: drawing.axis,
        what: what(subject, main),
        phases: phases(&line, main),
        futures: future::futures(main, &line),
        floor: drawing.floor.iter().filter(|(x, y)| x.is_finite() && y.is_finite()).copied().collect(),
        line,
        marks,
        limit,
        view: None,
    };
    figure.view = View::of(&figure);
    figure
}

fn what(subject: Source<'_>, main: &Verdict) -> String {
    match (subject, &main.process) {
        (Source::Curve(curve), _) => match &curve.metric {
            lowtide_model::Metric::Other(name) => name.clone(),
            lowtide_model::Metric::Rss => "resident memory".to_owned(),
            lowtide_model::Metric::MaxRss => "largest resident memory so far".to_owned(),
            lowtide_model::Metric::Anon => "anonymous memory".to_owned(),
            lowtide_model::Metric::Gpu => "GPU memory".to_owned(),
            lowtide_model::Metric::PssTree => "memory of the whole tree".to_owned(),
            lowtide_model::Metric::Cgroup => "memory of the cgroup".to_owned(),
            lowtide_model::Metric::Host => "memory of the machine".to_owned(),
        },
        (Source::Recording(_), Some(process)) => {
            let holds = if process.with.is_empty() { "holds for itself" } else { "hold for themselves" };
            format!("memory that {} {holds}", process.who())
        }
        (Source::Recording(_), None) => "memory of the whole tree, shared pages counted once".to_owned(),
    }
}

/// Growing and settled, where growth ended.
fn phases(line: &Line, main: &Verdict) -> Vec<Phase> {
    let (Some(&first), Some(&last)) = (line.x.first(), line.x.last()) else { return Vec::new() };
    let inside = |knee: &f64| *knee > first && *knee < last;
    match (main.drawing.knee.filter(inside), main.group) {
        (Some(knee), Group::Bounded) => vec![
            Phase { from: first, to: knee, name: "growing" },
            Phase { from: knee, to: last, name: "settled" },
        ],
        (_, Group::Leak) => vec![Phase { from: first, to: last, name: "growing" }],
        (_, Group::Bounded | Group::Flat | Group::TooEarly) => Vec::new(),
    }
}

fn happened(recording: &Recording) -> Vec<Happened> {
    let tells = |kind: EventKind| !matches!(kind, EventKind::Limits | EventKind::Interval);
    let worth: Vec<_> = recording.events.iter().filter(|event| tells(event.kind)).collect();
    let from = worth.len().saturating_sub(MOST_EVENTS);
    let one = |event: &&lowtide_model::Event| Happened {
        seconds: event.tick.seconds(),
        kind: event.kind,
        text: event.text.clone(),
    };
    worth[from..].iter().map(one).collect()
}

/// Names and versions from the job's own marks.
fn versions(recording: &Recording) -> Vec<String> {
    let told = recording.marks.iter().filter_map(|mark| {
        let facts: serde_json::Value = serde_json::from_str(mark.extra.as_deref()?).ok()?;
        let versions = facts.get("versions")?.as_object()?.clone();
        Some(versions)
    });
    let words = |(name, version): (String, serde_json::Value)| Some(format!("{name} {}", version.as_str()?));
    let all: std::collections::BTreeSet<String> = told.flatten().filter_map(words).collect();
    all.into_iter().take(MOST_VERSIONS).collect()
}

fn cost(recording: &Recording, seconds: f64) -> Cost {
    let meta = &recording.meta;
    let cpu_seconds = meta.own_cpu_ns as f64 / 1e9;
    Cost {
        cpu_percent: if seconds > 0.0 { 100.0 * cpu_seconds / seconds } else { 0.0 },
        cpu_seconds,
        peak_bytes: meta.own_peak_bytes,
        stall_ms: meta.stall_ns as f64 / 1e6,
        dropped_rows: meta.dropped_rows,
    }
}
