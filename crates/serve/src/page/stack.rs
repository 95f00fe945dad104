//! Memory over time, split by role and by kind: what is drawn as layers.
//!
//! Each stretch of time holds the highest level in it, so that a peak is never thinned away. A process that shares
//! pages with others counts them too: the layers add up to the sum of resident sizes, and the page says so.

use lowtide_model::{Bytes, ProcKey, Recording, Role, SampleRow, Tick};
use lowtide_verdict::RoleFound;
use serde::Serialize;
use std::collections::BTreeMap;

/// Stretches of time.
const STRETCHES: usize = 360;

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Layer {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<f64>,
}

/// Both splits over the same places.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Stacks {
    /// Seconds since the start.
    pub(crate) seconds: Vec<f64>,
    pub(crate) by_role: Vec<Layer>,
    pub(crate) by_kind: Vec<Layer>,
    /// How many processes lived.
    pub(crate) living: Vec<u32>,
}

const KINDS: [&str; 5] = ["anonymous", "file pages", "shared memory", "swapped out", "not split"];
/// Every role, in the order of the layers.
pub(crate) const ROLES: [Role; 6] =
    [Role::Trainer, Role::LoaderWorker, Role::CompileWorker, Role::Helper, Role::Wrapper, Role::Unknown];

/// Levels of one process, over the stretches.
#[derive(Clone, Default)]
struct Column {
    rss: Vec<f64>,
    kinds: [Vec<f64>; KINDS.len()],
}

impl Stacks {
    pub(crate) fn of(recording: &Recording, roles: &[RoleFound]) -> Option<Self> {
        let last = recording.samples.last()?.tick;
        let end = recording.meta.ended.unwrap_or(last).max(last).seconds();
        if end <= 0.0 {
            return None;
        }
        let role: BTreeMap<ProcKey, Role> = roles.iter().map(|found| (found.process, found.role)).collect();
        let mut rows: BTreeMap<ProcKey, Vec<&SampleRow>> = BTreeMap::new();
        recording.samples.iter().for_each(|row| rows.entry(row.process).or_default().push(row));
        let died: BTreeMap<ProcKey, Tick> =
            recording.processes.iter().filter_map(|process| Some((process.key, process.died?))).collect();
        let width = end / STRETCHES as f64;
        let mut by_role = vec![vec![0.0; STRETCHES]; ROLES.len()];
        let mut by_kind = vec![vec![0.0; STRETCHES]; KINDS.len()];
        let mut living = vec![0; STRETCHES];
        for (key, rows) in &rows {
            let column = column(rows, died.get(key).copied(), width);
            let at = ROLES.iter().position(|r| Some(r) == role.get(key)).unwrap_or(ROLES.len() - 1);
            add(&mut by_role[at], &column.rss);
            by_kind.iter_mut().zip(&column.kinds).for_each(|(sum, own)| add(sum, own));
            living.iter_mut().zip(&column.rss).for_each(|(count, rss)| *count += u32::from(*rss > 0.0));
        }
        Some(Self {
            seconds: (1..=STRETCHES).map(|n| ((n as f64 * width) * 1000.0).round() / 1000.0).collect(),
            by_role: layers(ROLES.map(Role::word), by_role),
            by_kind: layers(KINDS, by_kind),
            living,
        })
    }
}

/// Layers that hold anything, the largest at the bottom.
fn layers<const N: usize>(names: [&'static str; N], sums: Vec<Vec<f64>>) -> Vec<Layer> {
    let mut layers: Vec<Layer> =
        names.into_iter().zip(sums).map(|(name, bytes)| Layer { name, bytes }).collect();
    let peak = |layer: &Layer| layer.bytes.iter().copied().fold(0.0, f64::max);
    layers.retain(|layer| peak(layer) > 0.0);
    layers.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
    layers
}

fn add(sum: &mut [f64], own: &[f64]) {
    sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
}

/// The highest level in each stretch; where no row lies, the level of the last row before it.
fn column(rows: &[&SampleRow], died: Option<Tick>, width: f64) -> Column {
    let mut column = Column::default();
    let mut rows = rows.iter().peekable();
    let mut held: Option<&SampleRow> = None;
    for stretch in 1..=STRETCHES {
        let end = if stretch == STRETCHES { f64::INFINITY } else { stretch as f64 * width };
        let begin = (stretch - 1) as f64 * width;
        let mut high: Option<&SampleRow> = None;
        while let Some(row) = rows.next_if(|row| row.tick.seconds() <= end) {
            high = high.filter(|h| h.rss.max >= row.rss.max).or(Some(row));
            held = Some(row);
        }
        let gone = high.is_none() && died.is_some_and(|died| died.seconds() <= begin);
        let shown = if gone { None } else { high.or(held) };
        let peak = high.is_some();
        column
            .rss
            .push(shown.map_or(0.0, |row| if peak { row.rss.max.as_f64() } else { row.rss.last.as_f64() }));
        let kinds = shown.map_or([0.0; KINDS.len()], |row| kinds(row, peak));
        column.kinds.iter_mut().zip(kinds).for_each(|(kind, bytes)| kind.push(bytes));
    }
    column
}

fn kinds(row: &SampleRow, peak: bool) -> [f64; KINDS.len()] {
    let size = |bytes: Option<Bytes>| bytes.unwrap_or_default().as_f64();
    let anon = row.anon.map(|span| if peak { span.max } else { span.last });
    let rss = if peak { row.rss.max } else { row.rss.last };
    let rest = if anon.is_some() { 0.0 } else { (rss.as_f64() - size(row.file) - size(row.shmem)).max(0.0) };
    [size(anon), size(row.file), size(row.shmem), size(row.swap), rest]
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{Process, Span};

    fn row(second: u64, low: u64, high: u64) -> SampleRow {
        let rss = Span { min: Bytes::from_mib(low), max: Bytes::from_mib(high), last: Bytes::from_mib(low) };
        SampleRow {
            tick: Tick(second * 1_000_000_000),
            ticks: 1,
            rss,
            anon: Some(rss),
            ..SampleRow::default()
        }
    }

    #[test]
    fn a_short_peak_stands_in_its_layer_and_a_dead_process_in_none() {
        let process = Process {
            key: ProcKey::default(),
            parent: None,
            born: Tick(0),
            died: Some(Tick(3_000_000_000_000)),
            exit: None,
            execed: true,
            comm: "x".into(),
            argv: Vec::new(),
            env: Vec::new(),
            cgroup: None,
            peak_rss: None,
        };
        let samples = (0..3000).map(|s| row(s, 100, if s == 1234 { 900 } else { 100 })).collect();
        let mut recording = Recording { processes: vec![process], samples, ..Recording::default() };
        recording.meta.ended = Some(Tick(6_000_000_000_000));
        let stacks = Stacks::of(&recording, &[]).unwrap();
        let [only] = &stacks.by_role[..] else { panic!("one role") };
        let peak = only.bytes.iter().copied().fold(0.0, f64::max);
        assert!((peak - Bytes::from_mib(900).as_f64()).abs() < 1.0);
        assert_eq!(only.bytes.last(), Some(&0.0), "it died half way");
        assert_eq!(stacks.by_kind[0].name, "anonymous");
    }
}
