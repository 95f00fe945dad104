//! Judges a run while it is recorded: takes the rows as they are written and can be asked at any moment.
//!
//! A recording is judged by feeding its rows through the same judge, so the answer at the end of a run is the answer
//! on its file. The tree is split by process and by kind of memory before anything is fitted.

use crate::allocator::{Allocators, Speaker};
use crate::budget::Beside;
use crate::crew::Subject;
use crate::gaps::Gaps;
use crate::judge::Judge;
use crate::killed::Deaths;
use crate::levels::Levels;
use crate::lives::Restarts;
use crate::marks::Marks;
use crate::roles::{Footprint, RoleFound, roles};
use crate::scans::Scans;
use crate::series::Point;
use crate::track::Track;
use lowtide_model::{
    Axis, Bytes, CgroupRow, Context, Event, GpuRow, HostRow, LimitHeld, LimitKind, Mark, Meta, Metric,
    ProcKey, Process, Recording, RunState, SampleRow, ScanRow, Tick,
};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

/// Processes followed in full; beyond, the smallest that are dead are forgotten, and the smallest that live for far larger ones.
const MOST_TRACKS: usize = 96;
/// Processes remembered; beyond, those that died without ever being sampled are forgotten.
const MOST_PROCESSES: usize = 4096;
/// The kernel's own doubt about RSS where it is not known better: 64 pages.
const LEAST_DOUBT: f64 = 262_144.0;

/// Takes rows and marks in the order of their ticks.
#[derive(Clone, Debug)]
pub struct LiveJudge {
    pub(crate) asked: Context,
    pub(crate) doubt: f64,
    pub(crate) processes: BTreeMap<ProcKey, Process>,
    pub(crate) tracks: BTreeMap<ProcKey, Track>,
    pub(crate) marks: Marks,
    pub(crate) gpus: BTreeMap<(u32, Option<ProcKey>), Levels>,
    /// Sum of what all living processes need, and how many they are.
    pub(crate) tree: Judge,
    pub(crate) alive: Judge,
    /// The most they held together.
    together: f64,
    pub(crate) limits: Vec<LimitHeld>,
    pub(crate) host: Option<HostRow>,
    pub(crate) host_first: Option<HostRow>,
    pub(crate) now: f64,
    pub(crate) running: bool,
    /// A recorder draws nothing.
    pub(crate) drawn: bool,
    pub(crate) gaps: Gaps,
    pub(crate) deaths: Deaths,
    pub(crate) restarts: Restarts,
    pub(crate) allocators: Allocators,
    pub(crate) scans: Scans,
    /// Size of each GPU and what is used of it by all.
    pub(crate) gpu_sizes: BTreeMap<u32, (f64, f64)>,
    marked: BTreeSet<ProcKey>,
    /// When the first mark of progress came that names no process.
    unnamed_marks: Option<Tick>,
}

impl LiveJudge {
    /// A judge that has seen nothing; `asked` holds what the user said.
    pub fn new(meta: &Meta, asked: Context) -> Self {
        let judge = || Judge::with_room(Context::default(), Axis::Seconds, Metric::Anon, 512);
        Self {
            asked,
            doubt: doubt(meta),
            processes: BTreeMap::new(),
            tracks: BTreeMap::new(),
            marks: Marks::default(),
            gpus: BTreeMap::new(),
            tree: judge(),
            alive: judge(),
            together: 0.0,
            limits: Vec::new(),
            host: None,
            host_first: None,
            now: 0.0,
            running: true,
            drawn: false,
            gaps: Gaps::default(),
            deaths: Deaths::default(),
            restarts: Restarts::default(),
            allocators: Allocators::default(),
            scans: Scans::default(),
            gpu_sizes: BTreeMap::new(),
            marked: BTreeSet::new(),
            unnamed_marks: None,
        }
    }

    /// Takes a process that was born, or news of one that is known.
    pub fn push_process(&mut self, process: &Process) {
        if self.processes.len() >= MOST_PROCESSES {
            let tracks = &self.tracks;
            self.processes.retain(|key, known| known.died.is_none() || tracks.contains_key(key));
        }
        self.processes.insert(process.key, process.clone());
    }

    /// Takes a row of a process.
    pub fn push_sample(&mut self, row: &SampleRow) {
        self.now = self.now.max(row.tick.seconds());
        if !self.tracks.contains_key(&row.process) && self.tracks.len() >= MOST_TRACKS {
            self.forget(row.rss.max);
        }
        // One for whom there is no room is not followed; the others still are.
        if self.tracks.len() < MOST_TRACKS || self.tracks.contains_key(&row.process) {
            self.tracks.entry(row.process).or_insert_with(Track::new).push(row, &self.marks);
        }
        let now = self.now;
        let (sum, count) = self.parts().fold((0.0, 0), |(sum, count), (_, part)| (sum + part, count + 1));
        self.tree.push(Point::one(now, sum));
        self.alive.push(Point::one(now, f64::from(count)));
        let span = row.anon.unwrap_or(row.rss);
        self.together = self.together.max(sum + span.max.saturating_sub(span.last).as_f64());
        let forked = self.is_forked(&row.process);
        if let Some(track) = self.tracks.get_mut(&row.process) {
            track.beside = sum - track.part(forked);
        }
    }

    /// What each living process holds of what all hold together.
    fn parts(&self) -> impl Iterator<Item = (ProcKey, f64)> {
        let lives = |key: &ProcKey| {
            let died = self.processes.get(key).and_then(|process| process.died);
            died.is_none_or(|died| died.seconds() > self.now)
        };
        let living = self.tracks.iter().filter(move |(key, _)| lives(key));
        living.map(|(key, track)| (*key, track.part(self.is_forked(key))))
    }

    /// Whether a process was made by fork alone and has pages of its parent's.
    pub(crate) fn is_forked(&self, key: &ProcKey) -> bool {
        self.processes.get(key).is_some_and(|process| !process.execed && process.parent.is_some())
    }

    /// What a process has to share a limit with that holds for all of the job.
    fn beside(&self, subject: &Subject) -> Beside {
        let own = |key: &ProcKey| subject.members.contains(key);
        let lives = self.parts().any(|(key, _)| own(&key));
        let now = || self.parts().filter(|(key, _)| !own(key)).map(|(_, part)| part).sum();
        // What lay beside one of them when it ended were the others, and what is not theirs.
        let then = || {
            let part = |key: &ProcKey| Some(self.tracks.get(key)?.part(self.is_forked(key)));
            let others = subject.members.iter().filter(|key| **key != subject.key).filter_map(part);
            let beside = self.tracks.get(&subject.key).map_or(0.0, |track| track.beside);
            beside - others.sum::<f64>()
        };
        let held: f64 = if lives { now() } else { then() };
        Beside { held: held.max(0.0), together: self.together, ..Beside::default() }
    }

    /// Makes room for one of this size: the smallest of the dead goes, else the smallest if the new one is far larger. Were it
    /// forgotten for one of its like, of many workers none would be followed for long.
    fn forget(&mut self, size: Bytes) {
        let dead = |key: &ProcKey| self.processes.get(key).is_some_and(|p| p.died.is_some());
        let smallest = |only_dead: bool| {
            let able = self.tracks.iter().filter(|(k, _)| !only_dead || dead(k));
            able.min_by_key(|(_, t)| t.footprint.peak).map(|(k, t)| (*k, t.footprint.peak))
        };
        let far_larger = |(_, peak): &(ProcKey, Bytes)| size.0 / 2 > peak.0;
        if let Some((key, _)) = smallest(true).or_else(|| smallest(false).filter(far_larger)) {
            self.tracks.remove(&key);
        }
    }

    /// Takes a row of the machine.
    pub fn push_host(&mut self, row: &HostRow) {
        self.now = self.now.max(row.tick.seconds());
        self.host = Some(*row);
        self.host_first.get_or_insert(*row);
    }

    /// Takes a row of a cgroup.
    pub fn push_cgroup(&mut self, row: &CgroupRow) {
        self.now = self.now.max(row.tick.seconds());
        self.deaths.push_cgroup(row);
    }

    /// Takes a row of a GPU.
    pub fn push_gpu(&mut self, row: &GpuRow) {
        self.now = self.now.max(row.tick.seconds());
        if row.process.is_none() || !self.gpu_sizes.contains_key(&row.gpu) {
            let sizes = row.total.map(|total| (total.as_f64(), row.used.last.as_f64()));
            self.gpu_sizes.extend(sizes.map(|sizes| (row.gpu, sizes)));
        }
        let (low, high) = (row.used.min.as_f64(), row.used.max.as_f64());
        let reading = Point { x: row.tick.seconds(), low, high, last: row.used.last.as_f64() };
        let levels = self.gpus.entry((row.gpu, row.process)).or_insert_with(Levels::new);
        levels.push(reading, self.marks.step);
        if let Some(track) = row.process.and_then(|key| self.tracks.get_mut(&key)) {
            track.footprint.gpu = track.footprint.gpu.max(row.used.max);
        }
    }

    /// Takes the marks that came before a row: a reading belongs to the step it was made in.
    fn push_marks_until<'m>(&mut self, tick: Tick, marks: &mut Peekable<impl Iterator<Item = &'m Mark>>) {
        while let Some(mark) = marks.next_if(|mark| mark.tick <= tick) {
            self.push_mark(mark);
        }
    }

    /// Takes a mark of the job.
    pub fn push_mark(&mut self, mark: &Mark) {
        self.now = self.now.max(mark.tick.seconds());
        let before = self.marks.newest_step();
        self.marks.push(mark);
        if let (Some(before), Some(now)) = (before, self.marks.newest_step())
            && now.0 > before.0
        {
            self.tracks.values_mut().for_each(|track| track.stepped(before, now));
        }
        if mark.kind.is_progress() {
            self.marked.extend(mark.process);
            if mark.process.is_none() {
                self.unnamed_marks.get_or_insert(mark.tick);
            }
        }
        self.push_told(mark);
    }

    /// What a mark says of tensors, allocators and inputs.
    fn push_told(&mut self, mark: &Mark) {
        let Some(extra) = mark.extra.as_deref() else { return };
        let (seconds, step) = (mark.tick.seconds(), self.marks.step);
        let tensors = self.allocators.push(Speaker::of(mark), seconds, step, extra);
        let track = mark.process.and_then(|process| self.tracks.get_mut(&process));
        if let Some((count, track)) = tensors.zip(track) {
            track.push_tensors(seconds, step, count);
        }
    }

    /// Takes an event.
    pub fn push_event(&mut self, event: &Event) {
        self.now = self.now.max(event.tick.seconds());
        self.gaps.push(event);
        self.deaths.push_event(event);
        self.restarts.push(event);
    }

    /// Takes what a process held.
    pub fn push_scan(&mut self, row: &ScanRow) {
        self.scans.push(row);
    }

    /// Says which limits hold now.
    pub fn set_limits(&mut self, limits: &[LimitHeld]) {
        self.limits = limits.to_vec();
    }

    /// Says that no more rows will come: the last answer may use all there is.
    pub fn finish(&mut self) {
        self.running = false;
    }

    /// What each process is for.
    pub fn roles(&self) -> Vec<RoleFound> {
        let processes: Vec<Process> = self.processes.values().cloned().collect();
        let memory: BTreeMap<ProcKey, Footprint> = self
            .tracks
            .iter()
            .map(|(k, t)| {
                let (marks, after_marks) = (self.marked.contains(k), self.born_after_marks(k));
                (*k, Footprint { marks, after_marks, ..t.footprint })
            })
            .collect();
        roles(&processes, &memory)
    }

    /// Whether steps were told by somebody, nobody knows who, before this process was born.
    fn born_after_marks(&self, key: &ProcKey) -> bool {
        let born = self.processes.get(key).map(|process| process.born);
        self.unnamed_marks.zip(born).is_some_and(|(first, born)| born > first)
    }

    /// The limit that a process's curve runs into, with its source, and what it shares it with. One that somebody gave is for all
    /// of the job: what the others hold is not left for it.
    pub(crate) fn ceiling(&self, subject: &Subject, need: f64) -> ((Option<Bytes>, Option<String>), Beside) {
        let nearest = self.limits.iter().min_by_key(|l| l.headroom());
        let of_job = |kind: &LimitKind| matches!(kind, LimitKind::Asked | LimitKind::Slurm);
        let given = self.asked.limit.map(|limit| (limit, self.asked.limit_from.clone()));
        let held = || nearest.filter(|l| of_job(&l.kind)).map(|l| (l.limit, Some(limit_words(&l.kind))));
        let Some((limit, from)) = given.or_else(held) else {
            return (self.limit(need), Beside::default());
        };
        let beside = Beside { limit: Some(limit.as_f64()), ..self.beside(subject) };
        ((Some(limit.saturating_sub(Bytes::from_f64(beside.held))), from), beside)
    }

    /// The limit that a curve runs into, with its source: what it holds now and what is left beside it, and never more than
    /// the limit itself: what a process held that has ended is among what is left.
    pub(crate) fn limit(&self, need: f64) -> (Option<Bytes>, Option<String>) {
        if self.asked.limit.is_some() {
            return (self.asked.limit, self.asked.limit_from.clone());
        }
        let held = self
            .limits
            .iter()
            .min_by_key(|l| l.headroom())
            .map(|l| (l.headroom().as_f64(), l.limit.as_f64(), limit_words(&l.kind)));
        let of_host = |h: lowtide_model::HostRow| {
            (h.available.last.as_f64(), h.total.as_f64(), "the machine's memory".to_owned())
        };
        let found = held.or_else(|| self.host.map(of_host));
        found.map(|(room, all, from)| (Bytes::from_f64((need + room).min(all)), from)).unzip()
    }
}

fn limit_words(kind: &LimitKind) -> String {
    match kind {
        LimitKind::Cgroup { path } => format!("cgroup {path}"),
        LimitKind::AddressSpace { process } => format!("RLIMIT_AS of process {}", process.pid),
        LimitKind::Host => "the machine's memory".to_owned(),
        LimitKind::DevShm => "/dev/shm".to_owned(),
        LimitKind::Slurm => "Slurm's grant".to_owned(),
        LimitKind::Asked => "--limit".to_owned(),
    }
}

/// Linux 6.2 to 6.15 count RSS per CPU and may be off by CPUs x max(32, 2 CPUs) pages.
fn doubt(meta: &Meta) -> f64 {
    let mut parts = meta.kernel.split(['.', '-']).map_while(|p| p.parse::<u32>().ok());
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let cpus = f64::from(meta.cpus);
    let counted = if ((6, 2)..=(6, 15)).contains(&version) {
        cpus * 32_f64.max(2.0 * cpus) * meta.page_bytes as f64
    } else {
        0.0
    };
    counted.max(LEAST_DOUBT)
}

/// Rows and marks of a recording in the order of their ticks.
pub(crate) fn feed(recording: &Recording, asked: Context) -> LiveJudge {
    let mut judge = LiveJudge::new(&recording.meta, asked);
    for process in &recording.processes {
        judge.push_process(process);
    }
    let mut marks = recording.marks.iter().peekable();
    let mut gpus = recording.gpus.iter().peekable();
    for row in &recording.samples {
        while let Some(gpu) = gpus.next_if(|g| g.tick <= row.tick) {
            judge.push_marks_until(gpu.tick, &mut marks);
            judge.push_gpu(gpu);
        }
        judge.push_marks_until(row.tick, &mut marks);
        judge.push_sample(row);
    }
    for gpu in gpus {
        judge.push_marks_until(gpu.tick, &mut marks);
        judge.push_gpu(gpu);
    }
    marks.for_each(|m| judge.push_mark(m));
    recording.host.iter().for_each(|h| judge.push_host(h));
    recording.cgroups.iter().for_each(|c| judge.push_cgroup(c));
    recording.events.iter().for_each(|e| judge.push_event(e));
    recording.scans.iter().for_each(|s| judge.push_scan(s));
    judge.set_limits(&recording.limits);
    judge.deaths.cut_off = recording.meta.state == Some(RunState::CutOff);
    judge.running = recording.meta.state == Some(RunState::Running);
    judge.drawn = true;
    judge
}
