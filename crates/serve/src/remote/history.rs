//! A recording as series over time, in the names of `/metrics`: facts, which are the same whenever they are sent, and
//! answers, which are what was known at a moment.

use super::cast::{Cast, Casting, STRETCH};
use crate::page::ROLES;
use crate::series::{self, KINDS, Sample};
use lowtide_model::{Context, ProcKey, Recording, Role, RunState, SampleRow, Tick};
use lowtide_verdict::{RunVerdict, Steps, curve_of};
use std::collections::BTreeMap;

/// The role under which the need of all processes together is told.
pub(super) const ALL: &str = "all";

/// One series: labels in the order of their names, samples in the order of time (milliseconds since 1970).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) labels: Labels,
    pub(super) samples: Vec<(i64, f64)>,
}

pub(super) type Labels = Vec<(String, String)>;

struct Sheet<'a> {
    recording: &'a Recording,
    all: BTreeMap<Labels, Vec<(i64, f64)>>,
}

impl<'a> Sheet<'a> {
    const fn new(recording: &'a Recording) -> Self {
        Self { recording, all: BTreeMap::new() }
    }

    fn put(
        &mut self,
        name: &str,
        base: &[(&'static str, String)],
        own: &[(&str, &str)],
        (tick, value): (Tick, f64),
    ) {
        let base = base.iter().map(|(name, value)| (*name, value.as_str()));
        let named = [("__name__", name)].into_iter().chain(base).chain(own.iter().copied());
        let mut labels: Labels =
            named.filter(|label| !label.1.is_empty()).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        labels.sort();
        let time = time(self.recording, tick);
        let samples = self.all.entry(labels).or_default();
        match samples.last_mut() {
            // Two rows within one millisecond: the later one holds.
            Some(last) if last.0 >= time => last.1 = value,
            Some(_) | None => samples.push((time, value)),
        }
    }

    fn series(self) -> Vec<Series> {
        self.all.into_iter().map(|(labels, samples)| Series { labels, samples }).collect()
    }
}

/// A moment of a run as milliseconds since 1970.
pub(super) fn time(recording: &Recording, tick: Tick) -> i64 {
    recording.meta.started_unix_ns / 1_000_000 + (tick.0 / 1_000_000) as i64
}

/// How far a recording is whole: a run that goes on may still get rows for its last two stretches.
pub(super) fn whole_until(recording: &Recording) -> Tick {
    if recording.meta.state != Some(RunState::Running) {
        return Tick(u64::MAX);
    }
    let newest = recording.samples.last().map_or(0, |row| row.tick.0);
    Tick((newest / STRETCH.0).saturating_sub(1) * STRETCH.0)
}

/// Everything that was measured, as far as it is whole.
pub(super) fn facts(recording: &Recording) -> Vec<Series> {
    let (mut sheet, mut casting) = (Sheet::new(recording), Casting::new(recording));
    let steps = Steps::of(&recording.marks);
    let died: BTreeMap<ProcKey, Tick> =
        recording.processes.iter().filter_map(|process| Some((process.key, process.died?))).collect();
    let whole = whole_until(recording);
    let mut held: BTreeMap<ProcKey, &SampleRow> = BTreeMap::new();
    let mut gpus = recording.gpus.iter().filter(|row| row.process.is_none()).peekable();
    for stretch in recording.samples.chunk_by(|a, b| a.tick.0 / STRETCH.0 == b.tick.0 / STRETCH.0) {
        let end = Tick((stretch[0].tick.0 / STRETCH.0 + 1) * STRETCH.0);
        if end > whole {
            break;
        }
        let cast = casting.next(end, stretch);
        for rows in stretch.chunk_by(|a, b| a.tick == b.tick) {
            let tick = rows[0].tick;
            held.extend(rows.iter().map(|row| (row.process, row)));
            held.retain(|key, _| died.get(key).is_none_or(|died| *died > tick));
            levels(&mut sheet, cast, &held, tick);
            needs(&mut sheet, cast, rows, &held);
            if let Some(step) = steps.at(tick) {
                sheet.put("lowtide_step", &cast.base, &[], (tick, step));
            }
        }
        while let Some(row) = gpus.next_if(|row| row.tick < end) {
            let own = [("gpu", &*row.gpu.to_string())];
            sheet.put("hw_gpu_memory_usage_bytes", &cast.base, &own, (row.tick, row.used.last.as_f64()));
        }
    }
    sheet.series()
}

/// Sums by role and kind.
fn levels(sheet: &mut Sheet<'_>, cast: &Cast, held: &BTreeMap<ProcKey, &SampleRow>, tick: Tick) {
    let mut roles: BTreeMap<&'static str, Vec<&SampleRow>> = BTreeMap::new();
    for (key, row) in held {
        roles.entry(cast.roles.get(key).copied().unwrap_or(Role::Unknown).word()).or_default().push(row);
    }
    for (role, rows) in roles {
        let role = role.replace(' ', "_");
        let sizes = || rows.iter().map(|row| row.rss.last.as_f64());
        let mut put =
            |name: &str, own: &[(&str, &str)], value| sheet.put(name, &cast.base, own, (tick, value));
        let usage = "process_memory_usage_bytes";
        put(usage, &[("role", &role), ("estimate", "sum")], sizes().sum());
        put(usage, &[("role", &role), ("estimate", "max")], sizes().fold(0.0, f64::max));
        put("lowtide_processes", &[("role", &role)], rows.len() as f64);
        for (at, kind) in KINDS.into_iter().enumerate() {
            let sum = rows.iter().map(|row| series::kinds(row)[at]).sum();
            put("lowtide_memory_bytes", &[("role", &role), ("kind", kind)], sum);
        }
    }
}

/// What the largest process of each role can lose nothing of, and all processes together.
fn needs(sheet: &mut Sheet<'_>, cast: &Cast, rows: &[SampleRow], held: &BTreeMap<ProcKey, &SampleRow>) {
    for row in rows {
        let role = cast.roles.get(&row.process).filter(|role| cast.largest.get(role) == Some(&row.process));
        let Some(role) = role.map(|role| role.word().replace(' ', "_")) else { continue };
        let (last, peak) = series::need(row);
        sheet.put("lowtide_need_bytes", &cast.base, &[("role", &role)], (row.tick, last));
        sheet.put("lowtide_need_peak_bytes", &cast.base, &[("role", &role)], (row.tick, peak));
    }
    let sum = held.values().map(|row| series::need(row).0).sum();
    sheet.put("lowtide_need_bytes", &cast.base, &[("role", ALL)], (rows[0].tick, sum));
}

/// What is known of a run now, as samples of the moment `at`.
pub(super) fn answers(recording: &Recording, run: &RunVerdict, at: Tick) -> Vec<Series> {
    let mut sheet = Sheet::new(recording);
    let base = series::labels_of(recording);
    for Sample { about, labels, value } in series::answers(recording, run) {
        let own: Vec<(&str, &str)> = labels[base.len()..].iter().map(|(n, v)| (*n, v.as_str())).collect();
        sheet.put(about.name, &base, &own, (at, value));
    }
    let judged = run.main.process.as_ref().map_or(ALL, |process| process.role.word());
    for role in ROLES.map(Role::word).into_iter().chain([ALL]) {
        let holds = f64::from(u8::from(role == judged));
        sheet.put("lowtide_judged_role", &base, &[("role", &role.replace(' ', "_"))], (at, holds));
    }
    // Without these a fill is only growth that ended.
    let Context { examples, batch, accum, world_size, epochs, epoch_steps, .. } =
        curve_of(recording, &run.main, &Context::default()).context;
    let facts = [
        ("examples", examples),
        ("batch", batch),
        ("accum", accum),
        ("world_size", world_size),
        ("epochs", epochs),
        ("epoch_steps", epoch_steps),
        // A process that ended gave memory back on its way out: who reads this back has to know.
        ("ended", recording.meta.ended.map(Tick::seconds)),
    ];
    for (fact, value) in facts {
        if let Some(value) = value {
            sheet.put("lowtide_run_context", &base, &[("fact", fact)], (at, value));
        }
    }
    sheet.series()
}
