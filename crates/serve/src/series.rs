//! The numbers of a run as series with labels: what `/metrics` shows and remote write sends.
//!
//! OpenTelemetry's names where there are some, `lowtide_*` else. Never a pid as a label: per role there is the sum, the
//! largest and the count. Not here: sending (see `remote`).

use lowtide_model::{Bytes, Meta, ProcKey, Recording, Role, RunState, SampleRow};
use lowtide_verdict::{Fits, Kind, RunVerdict, Steps, rank_of};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What a number is, in the words of the exposition format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
}

/// One number with its labels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) about: About,
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: f64,
}

const fn about(name: &'static str, help: &'static str) -> About {
    About { name, help }
}

const INFO: About = about("lowtide_run_info", "A run; always 1.");
const RUNS: About = about("lowtide_runs", "Recordings in the folder by state.");
const USAGE: About = about(
    "process_memory_usage_bytes",
    "Resident memory of the processes of a role: their sum and the largest.",
);
const KIND: About = about("lowtide_memory_bytes", "Memory of the processes of a role by kind.");
const PROCESSES: About = about("lowtide_processes", "Living processes of a role.");
const NEED: About = about(
    "lowtide_need_bytes",
    "What the judged process can lose nothing of: anonymous, shared and swapped memory.",
);
const STEP: About = about("lowtide_step", "The newest training step.");
const GPU: About = about("hw_gpu_memory_usage_bytes", "GPU memory in use.");
const GPU_LIMIT: About = about("hw_gpu_memory_limit_bytes", "GPU memory there is.");
const VERDICT: About = about("lowtide_verdict", "What the memory of a run is; 1 for the kind that holds.");
const OUTCOME: About = about("lowtide_outcome", "Whether it fits; 1 for the answer that holds.");
const CONFIDENCE: About = about("lowtide_verdict_confidence_ratio", "How sure the verdict is, 0 to 1.");
const FORECAST: About =
    about("lowtide_forecast_seconds", "Seconds until the limit is reached at the present rate.");
const LIMIT: About = about("lowtide_limit_bytes", "Where memory ends for the judged process.");
const HEADROOM: About =
    about("lowtide_headroom_bytes", "What is left under the limit with the smallest headroom.");
const GROWTH: About = about("lowtide_floor_growth_bytes", "How far the floor rose since the start.");

/// The labels that name a run.
pub(crate) fn labels_of(recording: &Recording) -> Vec<(&'static str, String)> {
    labels(&recording.meta, rank_of(recording))
}

pub(crate) fn labels(meta: &Meta, rank: Option<u32>) -> Vec<(&'static str, String)> {
    let mut labels = vec![("run", meta.run_id.clone()), ("node", meta.host.clone())];
    labels.extend(rank.map(|rank| ("rank", rank.to_string())));
    labels
}

struct Writer {
    base: Vec<(&'static str, String)>,
    out: Vec<Sample>,
}

impl Writer {
    fn put(&mut self, about: About, labels: &[(&'static str, &str)], value: f64) {
        let own = labels.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let labels = self.base.iter().cloned().chain(own).collect();
        self.out.push(Sample { about, labels, value });
    }
}

/// The newest numbers of a run.
pub(crate) fn newest(recording: &Recording, run: &RunVerdict) -> Vec<Sample> {
    let mut out = Writer { base: labels_of(recording), out: answers(recording, run) };
    levels(recording, run, &mut out);
    let mut gpus: BTreeMap<u32, f64> = BTreeMap::new();
    for row in recording.gpus.iter().filter(|row| row.process.is_none()) {
        gpus.insert(row.gpu, row.used.last.as_f64());
    }
    for (gpu, used) in gpus {
        out.put(GPU, &[("gpu", &gpu.to_string())], used);
    }
    let point = run.main.drawing.curve.last().map(|point| point.last);
    if let (Some(level), Some(process)) = (point, &run.main.process) {
        // The curve of several is what they hold together; the series is of one process, as it is sent over time.
        let newest = || recording.samples.iter().rev().find(|row| row.process == process.key);
        let level = if process.with.is_empty() { level } else { newest().map_or(level, |row| need(row).0) };
        out.put(NEED, &[("role", &process.role.word().replace(' ', "_"))], level);
    }
    if let Some(step) = recording.samples.last().and_then(|row| Steps::of(&recording.marks).at(row.tick)) {
        out.put(STEP, &[], step);
    }
    out.out
}

/// What a process can lose nothing of: the last level, and the highest since the row before.
pub(crate) fn need(row: &SampleRow) -> (f64, f64) {
    let size = |bytes: Option<Bytes>| bytes.unwrap_or_default().as_f64();
    let beside = size(row.shmem) + size(row.swap);
    let less = |bytes: Bytes| bytes.as_f64() - size(row.file);
    let (last, peak) = row.anon.map_or_else(
        || (less(row.rss.last), less(row.rss.max)),
        |anon| (anon.last.as_f64(), anon.max.as_f64()),
    );
    (last + beside, peak + beside)
}

/// What is known of a run: the answer, and what it was held against.
pub(crate) fn answers(recording: &Recording, run: &RunVerdict) -> Vec<Sample> {
    let mut out = Writer { base: labels_of(recording), out: Vec::new() };
    out.put(INFO, &[("name", &recording.meta.name), ("version", &recording.meta.lowtide)], 1.0);
    answer(recording, run, &mut out);
    let cards = recording.gpus.iter().filter(|row| row.process.is_none());
    let sizes: BTreeMap<u32, Bytes> = cards.filter_map(|row| Some((row.gpu, row.total?))).collect();
    for (gpu, total) in sizes {
        out.put(GPU_LIMIT, &[("gpu", &gpu.to_string())], total.as_f64());
    }
    out.out
}

/// Sums of one role.
#[derive(Clone, Copy, Default)]
struct Held {
    count: u32,
    sum: f64,
    largest: f64,
    kinds: [f64; 4],
}

pub(crate) const KINDS: [&str; 4] = ["anon", "file", "shmem", "swap"];

pub(crate) fn kinds(row: &SampleRow) -> [f64; 4] {
    let size = |bytes: Option<Bytes>| bytes.unwrap_or_default().as_f64();
    [size(row.anon.map(|span| span.last)), size(row.file), size(row.shmem), size(row.swap)]
}

fn levels(recording: &Recording, run: &RunVerdict, out: &mut Writer) {
    let role: BTreeMap<ProcKey, Role> = run.roles.iter().map(|found| (found.process, found.role)).collect();
    let mut last: BTreeMap<ProcKey, &SampleRow> =
        recording.samples.iter().map(|row| (row.process, row)).collect();
    for process in recording.processes.iter().filter(|process| process.died.is_some()) {
        last.remove(&process.key);
    }
    let mut held: BTreeMap<Role, Held> = BTreeMap::new();
    for (key, row) in last {
        let one = held.entry(role.get(&key).copied().unwrap_or(Role::Unknown)).or_default();
        let rss = row.rss.last.as_f64();
        one.count += 1;
        one.sum += rss;
        one.largest = one.largest.max(rss);
        one.kinds.iter_mut().zip(kinds(row)).for_each(|(sum, own)| *sum += own);
    }
    for (role, held) in held {
        let role = role.word().replace(' ', "_");
        out.put(USAGE, &[("role", &role), ("estimate", "sum")], held.sum);
        out.put(USAGE, &[("role", &role), ("estimate", "max")], held.largest);
        out.put(PROCESSES, &[("role", &role)], f64::from(held.count));
        for (kind, bytes) in KINDS.into_iter().zip(held.kinds) {
            out.put(KIND, &[("role", &role), ("kind", kind)], bytes);
        }
    }
}

fn answer(recording: &Recording, run: &RunVerdict, out: &mut Writer) {
    let main = &run.main;
    for kind in Kind::ALL {
        out.put(VERDICT, &[("verdict", kind.word())], f64::from(u8::from(kind == main.verdict)));
    }
    for (is, word) in
        [(Fits::Fits, "fits"), (Fits::Tight, "tight"), (Fits::Exceeds, "exceeds"), (Fits::Unknown, "unknown")]
    {
        out.put(OUTCOME, &[("outcome", word)], f64::from(u8::from(is == main.outcome.is)));
    }
    out.put(CONFIDENCE, &[], main.confidence);
    out.put(GROWTH, &[], main.floor.end_bytes - main.floor.start_bytes);
    // A job that is over reaches no limit any more.
    let over = matches!(recording.meta.state, Some(RunState::Finished | RunState::CutOff));
    let told = [
        (FORECAST, main.forecast.filter(|_| !over).and_then(|forecast| forecast.in_seconds)),
        (LIMIT, main.outcome.limit_bytes),
        (HEADROOM, recording.limits.first().map(|held| held.headroom().as_f64())),
    ];
    for (about, value) in told {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            out.put(about, &[], value);
        }
    }
}

/// How many recordings are in a state.
pub(crate) fn count_of_runs(state: &'static str, count: f64) -> Sample {
    Sample { about: RUNS, labels: vec![("state", state.to_owned())], value: count }
}

/// The two forms scrapers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// OpenMetrics 1.0: what Prometheus asks for first.
    OpenMetrics,
    /// The older text form, for everybody else.
    Plain,
}

impl Form {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Units that a name may end in.
const UNITS: [&str; 3] = ["bytes", "seconds", "ratio"];

/// Text that scrapers read: every name once, with its help, then all its samples.
pub(crate) fn exposition(samples: &[Sample], form: Form) -> String {
    let mut names: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    samples.iter().for_each(|sample| names.entry(sample.about.name).or_default().push(sample));
    let mut out = String::new();
    for (name, samples) in names {
        let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} gauge", samples[0].about.help);
        let unit = UNITS.into_iter().find(|unit| name.ends_with(&format!("_{unit}")));
        if let Some(unit) = unit.filter(|_| form == Form::OpenMetrics) {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        let mut told = std::collections::BTreeSet::new();
        for sample in samples {
            let labels: Vec<String> =
                sample.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = labels.join(",");
            // Two files of one run (a copy, say) are told once: a series twice is an error to every scraper.
            if told.insert(labels.clone()) {
                let _ = writeln!(out, "{name}{{{labels}}} {}", sample.value);
            }
        }
    }
    if form == Form::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn escaped(value: &str) -> String {
    let clean: String = value.chars().filter(|c| !c.is_control() || *c == '\n').collect();
    clean.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_names_cannot_make_a_line_of_their_own() {
        let name = "x\"} 1\nevil{a=\"b\\";
        let samples = [Sample { about: INFO, labels: vec![("name", name.to_owned())], value: 1.0 }];
        let text = exposition(&samples, Form::Plain);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.ends_with("lowtide_run_info{name=\"x\\\"} 1\\nevil{a=\\\"b\\\\\"} 1\n"), "{text}");
    }

    #[test]
    fn openmetrics_tells_units_and_its_end() {
        let sample = Sample { about: NEED, labels: Vec::new(), value: 1.5 };
        let text = exposition(&[sample], Form::OpenMetrics);
        assert!(text.contains("# UNIT lowtide_need_bytes bytes\n"), "{text}");
        assert!(text.ends_with("lowtide_need_bytes{} 1.5\n# EOF\n"), "{text}");
    }

    #[test]
    fn a_job_that_is_over_has_no_forecast() {
        let (x, y) = (0..300).map(|i| (f64::from(i), 1e9 + 1e6 * f64::from(i))).unzip();
        let limit = Some(Bytes(2_000_000_000));
        let context = lowtide_model::Context { limit, ..Default::default() };
        let curve =
            lowtide_model::Curve { axis: lowtide_model::Axis::Seconds, x, y, context, ..Default::default() };
        let run = RunVerdict::of_curve(&curve);
        let told = |state: RunState| {
            let mut recording = Recording::default();
            recording.meta.state = Some(state);
            answers(&recording, &run).iter().any(|sample| sample.about.name == FORECAST.name)
        };
        assert!(told(RunState::Running));
        assert!(!told(RunState::Finished) && !told(RunState::CutOff));
    }

    #[test]
    fn a_series_stands_once() {
        let one = count_of_runs("running", 2.0);
        assert_eq!(exposition(&[one.clone(), one], Form::Plain).lines().count(), 3);
    }

    #[test]
    fn where_workers_are_told_together_the_need_is_that_of_the_largest() {
        let (x, y) = (0..30).map(|i| (f64::from(i), 8e9)).unzip();
        let curve = lowtide_model::Curve { axis: lowtide_model::Axis::Seconds, x, y, ..Default::default() };
        let mut run = RunVerdict::of_curve(&curve);
        let key = |pid| ProcKey { pid, start_ticks: 1 };
        let mut recording = Recording::default();
        recording.samples.push(SampleRow {
            process: key(7),
            anon: Some(lowtide_model::Span::one(Bytes(2_000_000_000))),
            ..SampleRow::default()
        });
        let mut need = |with: Vec<ProcKey>| {
            let role = Role::LoaderWorker;
            run.main.process =
                Some(lowtide_verdict::ProcessNamed { key: key(7), role, argv: Vec::new(), with });
            run.main.drawing.curve = vec![lowtide_verdict::Point::one(29.0, 8e9)];
            newest(&recording, &run)
                .into_iter()
                .find(|sample| sample.about == NEED)
                .map(|sample| sample.value)
        };
        assert_eq!(need(vec![key(8)]), Some(2e9));
        assert_eq!(need(Vec::new()), Some(8e9));
    }
}
