//! A recording as series over time, in the names of `/metrics`.

use crate::series::{self, KINDS, Sample};
use lowtide_model::{Bytes, Context, ProcKey, Recording, Role, SampleRow, Tick};
use lowtide_verdict::{RunVerdict, Steps, curve_of};
use std::collections::BTreeMap;

/// One series: labels in the order of their names, samples in the order of time (milliseconds since 1970).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) labels: Vec<(String, String)>,
    pub(super) samples: Vec<(i64, f64)>,
}

type Labels = Vec<(String, String)>;

struct Sheet<'a> {
    recording: &'a Recording,
    base: Vec<(&'static str, String)>,
    all: BTreeMap<Labels, Vec<(i64, f64)>>,
}

impl Sheet<'_> {
    fn time(&self, tick: Tick) -> i64 {
        self.recording.meta.started_unix_ns / 1_000_000 + (tick.0 / 1_000_000) as i64
    }

    fn put(&mut self, name: &str, own: &[(&str, &str)], tick: Tick, value: f64) {
        let base = self.base.iter().map(|(name, value)| (*name, value.as_str()));
        let named = [("__name__", name)].into_iter().chain(base).chain(own.iter().copied());
        let mut labels: Labels =
            named.filter(|label| !label.1.is_empty()).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        labels.sort();
        let time = self.time(tick);
        let samples = self.all.entry(labels).or_default();
        match samples.last_mut() {
            // Two rows within one millisecond: the later one holds.
            Some(last) if last.0 >= time => last.1 = value,
            Some(_) | None => samples.push((time, value)),
        }
    }
}

/// Everything of a run that is worth keeping in a fleet's history.
pub(super) fn history(recording: &Recording, run: &RunVerdict) -> Vec<Series> {
    let mut sheet = Sheet { recording, base: series::labels_of(recording), all: BTreeMap::new() };
    levels(&mut sheet, run);
    need(&mut sheet, run);
    gpus(&mut sheet);
    let end = recording.samples.last().map_or(Tick::START, |row| row.tick);
    for Sample { about, labels, value } in series::newest(recording, run) {
        let own: Vec<(&str, &str)> =
            labels[sheet.base.len()..].iter().map(|(n, v)| (*n, v.as_str())).collect();
        sheet.put(about.name, &own, end, value);
    }
    context(&mut sheet, run, end);
    sheet.all.into_iter().map(|(labels, samples)| Series { labels, samples }).collect()
}

/// What the judged process needs, with the step it was at.
fn need(sheet: &mut Sheet<'_>, run: &RunVerdict) {
    let recording = sheet.recording;
    let steps = Steps::of(&recording.marks);
    let Some(judged) = run.main.process.as_ref().map(|process| process.key) else { return };
    for row in recording.samples.iter().filter(|row| row.process == judged) {
        let size = |bytes: Option<Bytes>| bytes.unwrap_or_default().as_f64();
        let beside = size(row.shmem) + size(row.swap);
        let less = |bytes: Bytes| bytes.as_f64() - size(row.file);
        let (last, peak) = row.anon.map_or_else(
            || (less(row.rss.last), less(row.rss.max)),
            |anon| (anon.last.as_f64(), anon.max.as_f64()),
        );
        sheet.put("lowtide_need_bytes", &[], row.tick, last + beside);
        sheet.put("lowtide_need_peak_bytes", &[], row.tick, peak + beside);
        if let Some(step) = steps.at(row.tick) {
            sheet.put("lowtide_step", &[], row.tick, step);
        }
    }
}

/// What the run knows of itself: without it a fill is only growth that ended.
fn context(sheet: &mut Sheet<'_>, run: &RunVerdict, end: Tick) {
    let Context { examples, batch, accum, world_size, epochs, epoch_steps, .. } =
        curve_of(sheet.recording, &run.main, &Context::default()).context;
    let facts = [
        ("examples", examples),
        ("batch", batch),
        ("accum", accum),
        ("world_size", world_size),
        ("epochs", epochs),
        ("epoch_steps", epoch_steps),
    ];
    for (fact, value) in facts {
        if let Some(value) = value {
            sheet.put("lowtide_run_context", &[("fact", fact)], end, value);
        }
    }
}

fn gpus(sheet: &mut Sheet<'_>) {
    let recording = sheet.recording;
    for row in recording.gpus.iter().filter(|row| row.process.is_none()) {
        sheet.put(
            "hw_gpu_memory_usage_bytes",
            &[("gpu", &row.gpu.to_string())],
            row.tick,
            row.used.last.as_f64(),
        );
    }
}

/// Sums by role and kind, at every moment at which any of them moved.
fn levels(sheet: &mut Sheet<'_>, run: &RunVerdict) {
    let recording = sheet.recording;
    let role: BTreeMap<ProcKey, Role> = run.roles.iter().map(|found| (found.process, found.role)).collect();
    let died: BTreeMap<ProcKey, Tick> =
        recording.processes.iter().filter_map(|process| Some((process.key, process.died?))).collect();
    let mut held: BTreeMap<ProcKey, &SampleRow> = BTreeMap::new();
    for rows in recording.samples.chunk_by(|a, b| a.tick == b.tick) {
        let tick = rows[0].tick;
        held.extend(rows.iter().map(|row| (row.process, row)));
        held.retain(|key, _| died.get(key).is_none_or(|died| *died > tick));
        let mut roles: BTreeMap<Role, Vec<&SampleRow>> = BTreeMap::new();
        for (key, row) in &held {
            roles.entry(role.get(key).copied().unwrap_or(Role::Unknown)).or_default().push(row);
        }
        for (role, rows) in roles {
            told(sheet, &role.word().replace(' ', "_"), &rows, tick);
        }
    }
}

fn told(sheet: &mut Sheet<'_>, role: &str, rows: &[&SampleRow], tick: Tick) {
    let sizes = || rows.iter().map(|row| row.rss.last.as_f64());
    let usage = "process_memory_usage_bytes";
    sheet.put(usage, &[("role", role), ("estimate", "sum")], tick, sizes().sum());
    sheet.put(usage, &[("role", role), ("estimate", "max")], tick, sizes().fold(0.0, f64::max));
    sheet.put("lowtide_processes", &[("role", role)], tick, rows.len() as f64);
    for (at, kind) in KINDS.into_iter().enumerate() {
        let sum = rows.iter().map(|row| series::kinds(row)[at]).sum();
        sheet.put("lowtide_memory_bytes", &[("role", role), ("kind", kind)], tick, sum);
    }
}
