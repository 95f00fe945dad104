//! A recording in a few numbers, role by role: what it held at the start, at most, on average, and how its floor moved.
//!
//! Plain arithmetic over rows. Not here: what the numbers mean (see the verdict).

use crate::roles::{Footprint, RoleFound, roles};
use crate::total::{Estimate, clean_ups, rows_of_life, tree_totals};
use lowtide_model::{
    ByteDelta, Bytes, CgroupRow, LimitHeld, LimitKind, ProcKey, Process, Recording, Role, SampleRow, Tick,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The floor at the start and at the end is the lowest level in this part of the time.
const EDGE_PART: f64 = 0.1;
/// Below this length nothing is said of a pace: a minute of it was never seen.
const PACE_SECONDS: f64 = 60.0;
/// A number of processes is the usual one when so many lived for this part of the time.
const USUAL_PART: f64 = 0.25;

/// Memory of some processes over the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Course {
    /// The first level seen.
    pub start_bytes: Bytes,
    /// The highest level.
    pub peak_bytes: Bytes,
    /// The average over time.
    pub average_bytes: Bytes,
    /// The lowest level in the first tenth of the time.
    pub floor_start_bytes: Bytes,
    /// The lowest level in the last tenth.
    pub floor_end_bytes: Bytes,
    /// How far the floor moved.
    pub growth_bytes: ByteDelta,
    /// The same for each minute.
    pub bytes_per_minute: f64,
    /// How far the floor moved for each minute of the second half of the time: growth that ended has no pace any more.
    /// Nothing where all of it is shorter than a minute.
    #[serde(skip)]
    pub late_bytes_per_minute: Option<f64>,
    /// How long it was looked at.
    pub seconds: f64,
}

/// All processes of one role.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoleSummary {
    /// Which role.
    pub role: Role,
    /// How many processes had it.
    pub processes: u64,
    /// Their RSS together.
    #[serde(flatten)]
    pub course: Course,
}

/// A whole recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Length of the recording.
    pub seconds: f64,
    /// Processes seen, the short-lived ones too.
    pub processes: u64,
    /// The tree, shared pages counted once.
    pub total: Course,
    /// How far the total may be off at its peak: not below, not above.
    pub peak_low_bytes: Bytes,
    /// The upper end of that.
    pub peak_high_bytes: Bytes,
    /// The plain sum of RSS at its highest.
    pub rss_sum_peak_bytes: Bytes,
    /// By role, largest peak first.
    pub roles: Vec<RoleSummary>,
}

/// The role of every process of a recording, with its reason.
pub fn roles_of(recording: &Recording) -> Vec<RoleFound> {
    let mut memory: BTreeMap<ProcKey, Footprint> = BTreeMap::new();
    for row in &recording.samples {
        let known =
            memory.entry(row.process).or_insert(Footprint { first: row.rss.last, ..Footprint::default() });
        known.peak = known.peak.max(row.rss.max);
    }
    for row in &recording.gpus {
        if let Some(known) = row.process.and_then(|process| memory.get_mut(&process)) {
            known.gpu = known.gpu.max(row.used.max);
        }
    }
    let progress = recording.marks.iter().filter(|mark| mark.kind.is_progress());
    for process in progress.filter_map(|mark| mark.process) {
        memory.entry(process).or_default().marks = true;
    }
    let unnamed = recording.marks.iter().find(|mark| mark.kind.is_progress() && mark.process.is_none());
    if let Some(first) = unnamed {
        for process in recording.processes.iter().filter(|process| process.born > first.tick) {
            memory.entry(process.key).and_modify(|known| known.after_marks = true);
        }
    }
    roles(&recording.processes, &memory)
}

/// Sums a recording up.
pub fn summarize(recording: &Recording) -> Summary {
    let totals = tree_totals(recording);
    let most = |of: fn(&Estimate) -> Bytes| {
        totals.iter().map(|(_, estimate, _)| of(estimate)).max().unwrap_or_default()
    };
    let own = own_cgroup(recording).map(|levels| course(&levels));
    let end =
        recording.meta.ended.or_else(|| recording.samples.last().map(|row| row.tick)).unwrap_or_default();
    Summary {
        seconds: end.seconds(),
        processes: recording.processes.len() as u64,
        total: own.unwrap_or_else(|| course_of(&totals)),
        peak_low_bytes: own.map_or_else(|| most(|estimate| estimate.low), |own| own.peak_bytes),
        peak_high_bytes: own.map_or_else(|| most(|estimate| estimate.high), |own| own.peak_bytes),
        rss_sum_peak_bytes: most(|estimate| estimate.rss_sum),
        roles: role_summaries(recording),
    }
}

/// The tree over time, every shared page counted once.
fn course_of(totals: &[(Tick, Estimate, usize)]) -> Course {
    let level = |(tick, estimate, living): &(Tick, Estimate, usize)| Level {
        tick: *tick,
        since: *tick,
        low: estimate.bytes,
        high: estimate.bytes,
        now: estimate.bytes,
        living: *living,
    };
    course(&totals.iter().map(level).collect::<Vec<_>>())
}

/// The most that the tree held, as its summary tells it.
fn tree_peak(recording: &Recording) -> Bytes {
    let own = own_cgroup(recording).map(|levels| course(&levels));
    own.unwrap_or_else(|| course_of(&tree_totals(recording))).peak_bytes
}

/// What was left of a limit when least was, as far as rows tell; else what was left when it was last looked at.
pub fn least_left(recording: &Recording, held: &LimitHeld) -> Bytes {
    let charge = |row: &CgroupRow| row.usage.max.saturating_sub(row.inactive_file.unwrap_or_default());
    let most = match &held.kind {
        LimitKind::AddressSpace { process } => {
            recording.samples.iter().filter(|row| row.process == *process).map(|row| row.size).max()
        }
        LimitKind::Cgroup { path } => {
            recording.cgroups.iter().filter(|row| row.path == *path).map(charge).max()
        }
        LimitKind::Host => recording.host.iter().map(|row| row.total.saturating_sub(row.available.min)).max(),
        LimitKind::DevShm => recording.host.iter().filter_map(|row| row.dev_shm_used).max(),
        LimitKind::Slurm | LimitKind::Asked => Some(tree_peak(recording)),
    };
    held.limit.saturating_sub(held.used.max(most.unwrap_or_default()))
}

/// Times in which some process of the job lived, in order and apart.
fn lived(recording: &Recording) -> Vec<(Tick, Tick)> {
    let clean_ups = clean_ups(recording);
    let end = |process: &Process| {
        let before = clean_ups.get(&process.key).map(|began| Tick(began.0.saturating_sub(1)));
        before.or(process.died).unwrap_or(Tick(u64::MAX))
    };
    let mut lives: Vec<(Tick, Tick)> =
        recording.processes.iter().map(|process| (process.born, end(process))).collect();
    lives.sort_unstable();
    lives.dedup_by(|later, before| {
        let overlaps = later.0 <= before.1;
        if overlaps {
            before.1 = before.1.max(later.1);
        }
        overlaps
    });
    lives
}

/// The tree as its own cgroup counted it: exact, but only where nobody else lived there all the time. What is read when
/// the job is over, or between two of its lives, is nobody's memory.
fn own_cgroup(recording: &Recording) -> Option<Vec<Level>> {
    let path = &recording.cgroups.first()?.path;
    let lived = lived(recording);
    let in_life = |row: &&CgroupRow| {
        let next = lived.partition_point(|(born, _)| *born <= row.tick);
        next.checked_sub(1).is_some_and(|life| row.tick <= lived[life].1)
    };
    let level = |row: &CgroupRow| {
        let alone = row.path == *path && row.strangers == Some(0);
        let held = row.anon?.saturating_add(row.shmem?);
        alone.then_some(Level {
            tick: row.tick,
            since: row.tick,
            low: held,
            high: held,
            now: held,
            living: 1,
        })
    };
    let levels: Option<Vec<Level>> = recording.cgroups.iter().filter(in_life).map(level).collect();
    levels.filter(|levels| !levels.is_empty())
}

fn role_summaries(recording: &Recording) -> Vec<RoleSummary> {
    let found = roles_of(recording);
    let role_of: BTreeMap<ProcKey, Role> = found.iter().map(|found| (found.process, found.role)).collect();
    let sampled: BTreeSet<ProcKey> = recording.samples.iter().map(|row| row.process).collect();
    let mut processes: BTreeMap<Role, u64> = BTreeMap::new();
    for (_, role) in role_of.iter().filter(|(process, _)| sampled.contains(process)) {
        *processes.entry(*role).or_default() += 1;
    }
    let one = |(role, processes): (Role, u64)| {
        let levels = levels(recording, |process| role_of.get(&process) == Some(&role));
        RoleSummary { role, processes, course: course(&levels) }
    };
    let mut roles: Vec<RoleSummary> = processes.into_iter().map(one).collect();
    roles.sort_by_key(|summary| std::cmp::Reverse(summary.course.peak_bytes));
    roles
}

/// The summed memory of some processes at one row.
#[derive(Clone, Copy)]
struct Level {
    tick: Tick,
    /// When the row before it was written: what it says of low and high began there.
    since: Tick,
    low: Bytes,
    high: Bytes,
    /// The level at the tick itself.
    now: Bytes,
    /// How many of them lived.
    living: usize,
}

/// The summed RSS of some processes over time.
fn levels(recording: &Recording, wanted: impl Fn(ProcKey) -> bool) -> Vec<Level> {
    enum Step<'a> {
        Row(&'a SampleRow),
        Died(ProcKey),
    }
    let rows = rows_of_life(recording).filter(|row| wanted(row.process));
    let rows = rows.map(|row| (row.tick, Step::Row(row)));
    let deaths = recording.processes.iter().filter(|process| wanted(process.key));
    let deaths = deaths.filter_map(|process| Some((process.died?, Step::Died(process.key))));
    let mut steps: Vec<(Tick, Step<'_>)> = rows.chain(deaths).collect();
    steps.sort_by_key(|(tick, step)| (*tick, matches!(step, Step::Died(_))));
    let mut living: BTreeMap<ProcKey, (Tick, Bytes)> = BTreeMap::new();
    let mut sum = Bytes::ZERO;
    let mut levels = Vec::new();
    for (tick, step) in steps {
        match step {
            Step::Row(row) => {
                let now = (tick, row.rss.last);
                let (since, before) = living.insert(row.process, now).unwrap_or((tick, Bytes::ZERO));
                let rest = sum.saturating_sub(before);
                sum = rest.saturating_add(row.rss.last);
                let (low, high) = (rest.saturating_add(row.rss.min), rest.saturating_add(row.rss.max));
                levels.push(Level { tick, since, low, high, now: sum, living: living.len() });
            }
            Step::Died(process) => sum = sum.saturating_sub(living.remove(&process).unwrap_or_default().1),
        }
    }
    levels
}

fn course(levels: &[Level]) -> Course {
    let (Some(first), Some(last)) = (levels.first(), levels.last()) else { return Course::default() };
    // Workers that come and go one by one move the sum without anything growing: floors are taken at full strength.
    // Where there is none, processes that multiply are what grows.
    let usual = usual_strength(levels);
    let counts = |level: &&Level| usual.is_none_or(|usual| level.living == usual);
    let full: Vec<Level> = levels.iter().filter(counts).copied().collect();
    let (begin, end) = (full.first().unwrap_or(first).tick, full.last().unwrap_or(last).tick);
    let seconds = end.since(begin).as_secs_f64();
    let edge = seconds * EDGE_PART;
    let at = |tick: Tick| tick.since(begin).as_secs_f64();
    let floor = |wanted: &dyn Fn(f64) -> bool| {
        let inside = full.iter().filter(|level| wanted(at(level.tick)));
        // A low that may lie before the edge is not the edge's.
        inside.map(|level| if wanted(at(level.since)) { level.low } else { level.now }).min()
    };
    let floor_start_bytes = floor(&|at| at <= edge).unwrap_or_default();
    let floor_end_bytes = floor(&|at| at >= seconds - edge).unwrap_or_default();
    let growth_bytes = floor_end_bytes.since(floor_start_bytes);
    let bytes_per_minute = if seconds > 1.0 { growth_bytes.0 as f64 / (seconds / 60.0) } else { 0.0 };
    let late_bytes_per_minute = (seconds >= PACE_SECONDS).then(|| {
        let half = seconds / 2.0;
        // Nothing is written while nothing moves: the level before then stayed.
        let before = full.iter().rev().find(|level| at(level.tick) < half).map(|level| level.now);
        let inside = floor(&|at| (half..=half + edge).contains(&at));
        let floor_half = inside.into_iter().chain(before).min().unwrap_or_default();
        floor_end_bytes.since(floor_half).0 as f64 / ((half - edge) / 60.0)
    });
    Course {
        start_bytes: first.now,
        peak_bytes: levels.iter().map(|level| level.high).max().unwrap_or_default(),
        average_bytes: average(levels),
        floor_start_bytes,
        floor_end_bytes,
        growth_bytes,
        bytes_per_minute,
        late_bytes_per_minute,
        seconds: last.tick.since(first.tick).as_secs_f64(),
    }
}

/// How many lived for a good part of the time, if any number did.
fn usual_strength(levels: &[Level]) -> Option<usize> {
    let mut time: BTreeMap<usize, f64> = BTreeMap::new();
    for pair in levels.windows(2) {
        *time.entry(pair[0].living).or_default() += pair[1].tick.since(pair[0].tick).as_secs_f64();
    }
    let all: f64 = time.values().sum();
    let (living, longest) = time.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (longest >= USUAL_PART * all).then_some(living)
}

/// Weighted by time: rows come when something moves, so a plain mean would favour the restless parts.
fn average(levels: &[Level]) -> Bytes {
    let mut weighted = 0.0;
    let mut time = 0.0;
    for pair in levels.windows(2) {
        let seconds = pair[1].tick.since(pair[0].tick).as_secs_f64();
        weighted += seconds * f64::midpoint(pair[0].low.as_f64(), pair[0].high.as_f64());
        time += seconds;
    }
    let only = levels.first().map_or(Bytes::ZERO, |level| level.high);
    if time > 0.0 { Bytes::from_f64(weighted / time) } else { only }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::{CgroupVersion, Span};

    fn key(pid: u32) -> ProcKey {
        ProcKey { pid, start_ticks: 1 }
    }

    fn process(pid: u32) -> Process {
        Process {
            key: key(pid),
            parent: None,
            born: Tick(0),
            died: None,
            exit: None,
            execed: true,
            comm: String::new(),
            argv: vec!["x".into()],
            env: Vec::new(),
            cgroup: None,
            peak_rss: None,
        }
    }

    fn row(pid: u32, second: u64, mib: u64) -> SampleRow {
        let rss = Span::one(Bytes::from_mib(mib));
        SampleRow {
            process: key(pid),
            tick: Tick(second * 1_000_000_000),
            ticks: 1,
            rss,
            ..SampleRow::default()
        }
    }

    #[test]
    fn growth_is_taken_between_floors_not_between_ends() {
        let spike = |second| if second % 10 == 9 { 500 } else { 0 };
        let samples = (0..=100).map(|second| row(1, second, 1000 + second + spike(second))).collect();
        let recording = Recording { processes: vec![process(1)], samples, ..Recording::default() };
        let summary = summarize(&recording);
        let course = summary.roles[0].course;
        assert_eq!(course.floor_start_bytes, Bytes::from_mib(1000));
        assert_eq!(course.floor_end_bytes, Bytes::from_mib(1090));
        assert_eq!(course.peak_bytes, Bytes::from_mib(1599));
        assert!((course.bytes_per_minute / 1_048_576.0 - 54.0).abs() < 0.1, "{}", course.bytes_per_minute);
    }

    fn cgroup(second: u64, mib: u64) -> CgroupRow {
        CgroupRow {
            path: "/job".into(),
            version: CgroupVersion::V2,
            tick: Tick(second * 1_000_000_000),
            ticks: 1,
            usage: Span::one(Bytes::from_mib(mib)),
            limit: None,
            anon: Some(Bytes::from_mib(mib)),
            file: None,
            shmem: Some(Bytes::ZERO),
            inactive_file: None,
            kernel: None,
            swap: None,
            oom_kills: None,
            limit_hits: None,
            pressure: None,
            strangers: Some(0),
        }
    }

    #[test]
    fn an_empty_cgroup_after_the_job_and_between_its_lives_is_no_floor() {
        let life = |pid: u32, from: u64, to: u64| {
            let at = |second: u64| Some(Tick(second * 1_000_000_000));
            Process { born: at(from).unwrap_or_default(), died: at(to), ..process(pid) }
        };
        let held = |second: u64| if second == 50 || second > 100 { 0 } else { 1000 };
        let recording = Recording {
            processes: vec![life(1, 0, 49), life(2, 51, 100)],
            cgroups: (1..=102).map(|second| cgroup(second, held(second))).collect(),
            ..Recording::default()
        };
        let total = summarize(&recording).total;
        assert_eq!(total.floor_end_bytes, Bytes::from_mib(1000));
        assert_eq!(total.growth_bytes, ByteDelta(0));
        assert_eq!(total.average_bytes, Bytes::from_mib(1000));
    }

    #[test]
    fn what_a_process_gives_back_on_its_way_out_is_no_floor() {
        let dead = Process { died: Some(Tick(101_000_000_000)), ..process(1) };
        let mut samples: Vec<SampleRow> = (0..=99).map(|second| row(1, second, 1000)).collect();
        samples.push(row(1, 100, 30));
        let held = cgroup(100, 30);
        let mut recording = Recording { processes: vec![dead], samples, ..Recording::default() };
        let floors = |recording: &Recording| {
            let summary = summarize(recording);
            (summary.roles[0].course.floor_end_bytes, summary.total.floor_end_bytes)
        };
        assert_eq!(floors(&recording), (Bytes::from_mib(1000), Bytes::from_mib(1000)));
        recording.cgroups = (0..=99).map(|second| cgroup(second, 1000)).chain([held]).collect();
        assert_eq!(floors(&recording).1, Bytes::from_mib(1000), "nor in its cgroup");
        recording.processes[0].died = None;
        assert_eq!(floors(&recording).0, Bytes::from_mib(30), "one that lives may have let go");
    }

    #[test]
    fn what_was_left_of_a_limit_is_what_was_left_when_least_was() {
        let size = |second: u64, mib: u64| SampleRow { size: Bytes::from_mib(mib), ..row(1, second, 10) };
        let recording =
            Recording { samples: vec![size(0, 100), size(1, 850), size(2, 200)], ..Recording::default() };
        let (limit, used) = (Bytes::from_mib(900), Bytes::from_mib(200));
        let held = |kind| LimitHeld { kind, limit, used };
        let own = held(LimitKind::AddressSpace { process: key(1) });
        assert_eq!(least_left(&recording, &own), Bytes::from_mib(50));
        assert_eq!(least_left(&recording, &held(LimitKind::Slurm)), Bytes::from_mib(700));
        let spike = Recording {
            samples: vec![row(1, 0, 100), row(1, 1, 811), row(1, 2, 200)],
            ..Recording::default()
        };
        for kind in [LimitKind::Slurm, LimitKind::Asked] {
            assert_eq!(least_left(&spike, &held(kind)), Bytes::from_mib(89), "these hold the whole tree");
        }
    }

    #[test]
    fn processes_that_multiply_are_growth_of_the_tree() {
        let samples = (0..20).flat_map(|second| (0..=second as u32).map(move |pid| row(pid, second, 30)));
        let processes =
            (0..20).map(|pid| Process { born: Tick(u64::from(pid) * 1_000_000_000), ..process(pid) });
        let recording =
            Recording { processes: processes.collect(), samples: samples.collect(), ..Recording::default() };
        let grown = summarize(&recording).total.growth_bytes;
        assert!(grown > ByteDelta(400 << 20), "{grown}");
    }

    #[test]
    fn growth_that_ended_has_no_pace_and_a_short_run_none_that_is_known() {
        let late = |length: u64, mib: fn(u64) -> u64| {
            let moved = |second: &u64| *second == 0 || *second == length || mib(*second) != mib(second - 1);
            let samples = (0..=length).filter(moved).map(|second| row(1, second, mib(second))).collect();
            let recording = Recording { processes: vec![process(1)], samples, ..Recording::default() };
            summarize(&recording).roles[0].course.late_bytes_per_minute.map(|pace| pace / 1_048_576.0)
        };
        assert_eq!(late(120, |second| 100 + 5 * second.min(50)), Some(0.0), "a fill that ended");
        let leak = late(120, |second| 100 + 5 * second).unwrap();
        assert!((leak - 300.0).abs() < 15.0, "{leak}");
        assert_eq!(late(120, |_| 100), Some(0.0));
        assert_eq!(late(18, |second| 100 + 5 * second), None);
    }

    #[test]
    fn an_average_is_weighted_by_time() {
        let recording = Recording {
            processes: vec![process(1)],
            samples: vec![row(1, 0, 100), row(1, 1, 100), row(1, 2, 200), row(1, 102, 200)],
            ..Recording::default()
        };
        let average = summarize(&recording).roles[0].course.average_bytes;
        assert!(average > Bytes::from_mib(197), "{average}");
    }

    #[test]
    fn an_empty_recording_has_an_empty_summary() {
        assert_eq!(summarize(&Recording::default()).total, Course::default());
    }
}
