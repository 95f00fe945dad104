//! The numbers of one run that can be compared: role by role, one kind of memory at a time, phase by phase.

use super::{Compared, Source};
use crate::{Point, Trace, Verdict, tree_totals};
use lowtide_model::{Axis, Bytes, ProcKey, Recording, Role, SampleRow, Tick};
use std::collections::BTreeMap;

/// The start is over after this part of the run.
const START: f64 = 0.1;
/// The end is this last part of it.
const END: f64 = 0.25;
/// Fewer values than this show no scatter of their own.
const FEW: usize = 4;

/// Which kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// All of it, shared pages once.
    All,
    /// What belongs to a process alone and has no file behind it.
    Anon,
    /// Pages of files.
    File,
    /// Shared memory.
    Shmem,
    /// What was swapped out.
    Swap,
    /// Memory of GPUs.
    Gpu,
}

/// Which part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The level once it has started.
    Start,
    /// What came between start and end.
    Growth,
    /// The level it ends at.
    End,
    /// What its highest peak adds to that.
    Peak,
    /// Growth for each step.
    PerStep,
    /// Growth for each second, where steps are not known.
    PerSecond,
    /// Growth for each sample, where nothing else is known.
    PerSample,
    /// Growth for each example.
    PerExample,
}

impl Phase {
    /// Whether it is a rate and not a level.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::PerStep | Self::PerSecond | Self::PerSample | Self::PerExample)
    }
}

/// The name of a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Key {
    /// None for the whole tree, or for a curve that does not say whose it is.
    pub role: Option<Role>,
    /// Which kind of memory.
    pub memory: Memory,
    /// Which part of the run.
    pub phase: Phase,
}

/// A number, with the error that its own run shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) bytes: f64,
    pub(super) error: f64,
}

/// Where a run ends, on the axis its levels are measured over.
pub(super) fn end_of(run: &Compared<'_>) -> Option<(Axis, f64)> {
    match run.what {
        Source::Curve(curve) => Some((curve.axis, Trace::of_curve(curve).ends()?.1)),
        Source::Recording(recording) => Some((Axis::Seconds, recording.samples.last()?.tick.seconds())),
    }
}

/// All numbers of a run, looked at up to this place.
pub(super) fn measure(run: &Compared<'_>, until: f64) -> BTreeMap<Key, Measured> {
    let mut out = BTreeMap::new();
    match run.what {
        Source::Curve(curve) => {
            phases(None, Memory::All, Trace::of_curve(curve).between(f64::NEG_INFINITY, until), &mut out);
        }
        Source::Recording(recording) => {
            let tree = tree_totals(recording).into_iter().map(|(tick, total, _)| level(tick, total.bytes));
            let tree: Vec<Point> = tree.take_while(|point| point.x <= until).collect();
            phases(None, Memory::All, &tree, &mut out);
            by_role(recording, run, until, &mut out);
        }
    }
    rates(run, &mut out);
    out
}

fn level(tick: Tick, bytes: Bytes) -> Point {
    let value = bytes.as_f64();
    Point { x: tick.seconds(), low: value, high: value, last: value }
}

/// Start, growth, end and peak of one curve.
fn phases(role: Option<Role>, memory: Memory, points: &[Point], out: &mut BTreeMap<Key, Measured>) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
    let length = last.x - first.x;
    let part = |from: f64, to: f64| -> Vec<(f64, f64)> {
        let inside = points.iter().filter(|point| (from..=to).contains(&point.x));
        inside.map(|point| (point.x, point.last)).collect()
    };
    let doubt = jitter(points);
    let start = middle(&part(first.x, START.mul_add(length, first.x)), doubt);
    let end = middle(&part((1.0 - END).mul_add(length, first.x), last.x), doubt);
    let (Some(start), Some(end)) = (start, end) else { return };
    let peak = points.iter().map(|point| point.high).fold(f64::NEG_INFINITY, f64::max);
    let growth = Measured { bytes: end.bytes - start.bytes, error: start.error.hypot(end.error) };
    let above = Measured { bytes: peak - end.bytes, error: end.error };
    let told = [(Phase::Start, start), (Phase::Growth, growth), (Phase::End, end), (Phase::Peak, above)];
    out.extend(told.into_iter().map(|(phase, value)| (Key { role, memory, phase }, value)));
}

/// The median, with a standard error from how far values lie from the line through them: steady growth is no noise. A
/// few values hide their scatter, so `doubt` stands in.
fn middle(values: &[(f64, f64)], doubt: f64) -> Option<Measured> {
    let bytes = quantile(&values.iter().map(|value| value.1).collect::<Vec<_>>(), 0.5)?;
    // Samples of one run follow each other: as a whole they say little more than one of them.
    let off = off_the_line(values);
    let scatter = (quantile(&off, 0.84)? - quantile(&off, 0.16)?) / 2.0;
    let error = if values.len() < FEW { scatter.max(doubt) } else { scatter };
    Some(Measured { bytes, error })
}

fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(((sorted.len() as f64 - 1.0) * part).round() as usize).copied()
}

/// Distances from the least-squares line.
fn off_the_line(values: &[(f64, f64)]) -> Vec<f64> {
    let n = values.len() as f64;
    let (mx, my) = (values.iter().map(|v| v.0).sum::<f64>() / n, values.iter().map(|v| v.1).sum::<f64>() / n);
    let spread: f64 = values.iter().map(|v| (v.0 - mx).powi(2)).sum();
    let lean: f64 = values.iter().map(|v| (v.0 - mx) * (v.1 - my)).sum();
    let slope = if spread > 0.0 { lean / spread } else { 0.0 };
    values.iter().map(|v| v.1 - my - slope * (v.0 - mx)).collect()
}

/// How unevenly a curve moves: the usual difference between one move and the next.
fn jitter(points: &[Point]) -> f64 {
    let bend = |three: &[Point]| (three[2].last - 2.0 * three[1].last + three[0].last).abs();
    quantile(&points.windows(3).map(bend).collect::<Vec<_>>(), 0.5).unwrap_or(0.0)
}

/// A kind of memory in a row.
type Pick = fn(&SampleRow) -> Option<Bytes>;

/// Sums over the processes of a role, for each kind of memory that is known.
fn by_role(recording: &Recording, run: &Compared<'_>, until: f64, out: &mut BTreeMap<Key, Measured>) {
    let last = recording.samples.last().map_or(Tick::START, |row| row.tick);
    let of =
        Whose { recording, last: if until.is_finite() { last.min(Tick::from_seconds(until)) } else { last } };
    let roles: BTreeMap<ProcKey, Role> = run.run.roles.iter().map(|r| (r.process, r.role)).collect();
    let kinds: [(Memory, Pick); 4] = [
        (Memory::Anon, |row| row.anon.map(|anon| anon.last)),
        (Memory::File, |row| row.file),
        (Memory::Shmem, |row| row.shmem),
        (Memory::Swap, |row| row.swap),
    ];
    for (memory, pick) in kinds {
        let values = recording.samples.iter().filter_map(|row| Some((row.tick, row.process, pick(row)?)));
        of.summed(&roles, memory, values.collect(), out);
    }
    let gpu = recording.gpus.iter().filter_map(|row| Some((row.tick, row.process?, row.used.last)));
    of.summed(&roles, Memory::Gpu, gpu.collect(), out);
}

/// A recording up to a moment.
struct Whose<'a> {
    recording: &'a Recording,
    last: Tick,
}

impl Whose<'_> {
    fn summed(
        &self,
        roles: &BTreeMap<ProcKey, Role>,
        memory: Memory,
        mut values: Vec<(Tick, ProcKey, Bytes)>,
        out: &mut BTreeMap<Key, Measured>,
    ) {
        // A process that ended holds nothing any more.
        let ended = self.recording.processes.iter();
        values.extend(ended.filter_map(|process| Some((process.died?, process.key, Bytes::ZERO))));
        values.sort_by_key(|(tick, ..)| *tick);
        let mut held: BTreeMap<Role, (BTreeMap<ProcKey, Bytes>, Vec<Point>)> = BTreeMap::new();
        for (tick, process, bytes) in values.into_iter().filter(|(tick, ..)| *tick <= self.last) {
            let role = roles.get(&process).copied().unwrap_or(Role::Unknown);
            let (now, points) = held.entry(role).or_default();
            now.insert(process, bytes);
            points.push(level(tick, now.values().copied().sum()));
        }
        for (role, (_, mut points)) in held {
            let end = points.last().map(|point| Point { x: self.last.seconds(), ..*point });
            points.extend(end);
            phases(Some(role), memory, &points, out);
        }
    }
}

/// Growth for each step and each example, as the verdict has them.
fn rates(run: &Compared<'_>, out: &mut BTreeMap<Key, Measured>) {
    let main: &Verdict = &run.run.main;
    let role = main.process.as_ref().map(|process| process.role);
    let memory = if role.is_some() { Memory::Anon } else { Memory::All };
    let floor = &main.floor;
    let error = (floor.high - floor.low).abs() / (2.0 * 1.96);
    let phase = match main.drawing.axis {
        Axis::Step => Some(Phase::PerStep),
        Axis::Seconds => Some(Phase::PerSecond),
        Axis::Sample => Some(Phase::PerSample),
        Axis::Epoch => None,
    };
    if let Some(phase) = phase.filter(|_| floor.bytes_per_step.is_finite() && error.is_finite()) {
        out.insert(Key { role, memory, phase }, Measured { bytes: floor.bytes_per_step, error });
    }
    if let Some(bytes) = main.bytes_per_example {
        let error = if floor.bytes_per_step > 0.0 { error / floor.bytes_per_step * bytes } else { 0.0 };
        out.insert(Key { role, memory, phase: Phase::PerExample }, Measured { bytes, error });
    }
}
