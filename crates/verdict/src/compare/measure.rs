//! The numbers of one run that can be compared: role by role, one kind of memory at a time, phase by phase.

use super::{Compared, Source};
use crate::marks::Marks;
use crate::{Point, Trace, Verdict, tree_totals};
use lowtide_model::{Axis, Bytes, ProcKey, Recording, Role, SampleRow, Tick};
use std::collections::BTreeMap;

/// The start is over after this part of the run.
const START: f64 = 0.1;
/// The end is this last part of it.
const END: f64 = 0.25;
/// Levels over steps are taken at so many places, evenly: a slower run has more samples a step.
const PLACES: usize = 200;
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

/// Up to where a run is looked at, and on which axis.
pub type Until = (Axis, f64);

/// Where a run ends, on the axis its levels are measured over.
pub(super) fn end_of(run: &Compared<'_>, until: Option<Until>) -> Option<Until> {
    match run.what {
        Source::Curve(curve) => Some((curve.axis, Trace::of_curve(curve).ends()?.1)),
        Source::Recording(recording) => {
            let whose = Whose::of(recording, run, until);
            Some((whose.axis(), whose.place(recording.samples.last()?.tick)?))
        }
    }
}

/// Whether a run can be measured over time.
pub(super) fn has_seconds(run: &Compared<'_>) -> bool {
    match run.what {
        Source::Curve(curve) => curve.axis == Axis::Seconds,
        Source::Recording(_) => true,
    }
}

/// All numbers of a run, looked at up to this place.
pub(super) fn measure(run: &Compared<'_>, until: Option<Until>) -> BTreeMap<Key, Measured> {
    let mut out = BTreeMap::new();
    match run.what {
        Source::Curve(curve) => {
            let end = until.map_or(f64::INFINITY, |(_, end)| end);
            phases(None, Memory::All, Trace::of_curve(curve).between(f64::NEG_INFINITY, end), &mut out);
        }
        Source::Recording(recording) => {
            let whose = Whose::of(recording, run, until);
            let tree = tree_totals(recording).into_iter();
            let tree = tree.filter_map(|(tick, total, _)| whose.level(tick, total.bytes));
            phases(None, Memory::All, &whose.evenly(tree.collect()), &mut out);
            by_role(&whose, run, &mut out);
        }
    }
    rates(run, &mut out);
    out
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
fn by_role(whose: &Whose<'_>, run: &Compared<'_>, out: &mut BTreeMap<Key, Measured>) {
    let recording = whose.recording;
    let roles: BTreeMap<ProcKey, Role> = run.run.roles.iter().map(|r| (r.process, r.role)).collect();
    let kinds: [(Memory, Pick); 4] = [
        (Memory::Anon, |row| row.anon.map(|anon| anon.last)),
        (Memory::File, |row| row.file),
        (Memory::Shmem, |row| row.shmem),
        (Memory::Swap, |row| row.swap),
    ];
    for (memory, pick) in kinds {
        let values = recording.samples.iter().filter_map(|row| Some((row.tick, row.process, pick(row)?)));
        whose.summed(&roles, memory, values.collect(), out);
    }
    let gpu = recording.gpus.iter().filter_map(|row| Some((row.tick, row.process?, row.used.last)));
    whose.summed(&roles, Memory::Gpu, gpu.collect(), out);
}

/// A recording up to a place. Its moments lie at steps where it is judged by them, so that a run that is only slower is
/// no other run; else at seconds.
struct Whose<'a> {
    recording: &'a Recording,
    steps: Option<Marks>,
    until: f64,
}

impl<'a> Whose<'a> {
    fn of(recording: &'a Recording, run: &Compared<'_>, until: Option<Until>) -> Self {
        let axis = until.map_or(run.run.main.drawing.axis, |(axis, _)| axis);
        let mut marks = Marks::default();
        recording.marks.iter().for_each(|mark| marks.push(mark));
        let steps = Some(marks).filter(|marks| axis == Axis::Step && marks.newest_step().is_some());
        Self { recording, steps, until: until.map_or(f64::INFINITY, |(_, end)| end) }
    }

    fn axis(&self) -> Axis {
        if self.steps.is_some() { Axis::Step } else { Axis::Seconds }
    }

    /// None before the first step. What comes after the last one is still at it.
    fn place(&self, tick: Tick) -> Option<f64> {
        let second = tick.seconds();
        let Some(steps) = &self.steps else { return Some(second) };
        let last = steps.newest_step().filter(|(_, told)| second >= *told).map(|(step, _)| step);
        last.or_else(|| steps.step_at(second))
    }

    /// A level where it counts: not before the first step, not beyond the end.
    fn level(&self, tick: Tick, bytes: Bytes) -> Option<Point> {
        let x = self.place(tick).filter(|x| *x <= self.until)?;
        Some(Point::one(x, bytes.as_f64()))
    }

    /// The same curve at places that do not depend on how fast the run was. No peak is lost.
    fn evenly(&self, points: Vec<Point>) -> Vec<Point> {
        let (Some(first), Some(last), Some(_)) = (points.first(), points.last(), &self.steps) else {
            return points;
        };
        let (from, length, mut seen) = (first.x, last.x - first.x, 0);
        let at = |n: usize| {
            let x = (n as f64 / PLACES as f64).mul_add(length, from);
            let after = if n == PLACES { points.len() } else { points.partition_point(|point| point.x <= x) };
            let new = points.get(seen..after).unwrap_or_default();
            seen = after;
            let before = points.get(after.saturating_sub(1)).unwrap_or(first);
            let y = points.get(after).map_or(before.last, |next| {
                ((x - before.x) / (next.x - before.x)).mul_add(next.last - before.last, before.last)
            });
            let high = new.iter().map(|point| point.high).fold(y, f64::max);
            Point { x, low: y, high, last: y }
        };
        (0..=PLACES).map(at).collect()
    }

    fn summed(
        &self,
        roles: &BTreeMap<ProcKey, Role>,
        memory: Memory,
        mut values: Vec<(Tick, ProcKey, Bytes)>,
        out: &mut BTreeMap<Key, Measured>,
    ) {
        let last = self.recording.samples.last().map_or(Tick::START, |row| row.tick);
        // A process that ended holds nothing any more.
        let ended = self.recording.processes.iter();
        values.extend(ended.filter_map(|process| Some((process.died?, process.key, Bytes::ZERO))));
        values.sort_by_key(|(tick, ..)| *tick);
        let mut held: BTreeMap<Role, (BTreeMap<ProcKey, Bytes>, Vec<Point>)> = BTreeMap::new();
        let within = |tick: Tick| tick <= last && self.place(tick).is_none_or(|x| x <= self.until);
        for (tick, process, bytes) in values.into_iter().filter(|(tick, ..)| within(*tick)) {
            let role = roles.get(&process).copied().unwrap_or(Role::Unknown);
            let (now, points) = held.entry(role).or_default();
            now.insert(process, bytes);
            points.extend(self.level(tick, now.values().copied().sum()));
        }
        let end = self.place(last).map(|end| end.min(self.until));
        for (role, (now, mut points)) in held {
            let at_end: Bytes = now.values().copied().sum();
            points.extend(end.map(|x| Point::one(x, at_end.as_f64())));
            phases(Some(role), memory, &self.evenly(points), out);
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
