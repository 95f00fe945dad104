//! What a job's own allocator says of GPU memory and tensors: in use against held, and how many tensors live.
//!
//! The driver sees one number, what the framework took. The framework knows which part of it holds tensors: that part
//! growing is a leak of tensors, the rest growing is fragmentation, and the two need different cures. Not here: the
//! driver's number (see `run`).

use crate::crew::Subject;
use crate::judge::Judge;
use crate::levels::Levels;
use crate::live::LiveJudge;
use crate::phrases::{number, size};
use crate::series::Point;
use crate::verdict::{Group, Kind, RuledOut, Verdict};
use lowtide_model::{Bytes, Context, Mark, ProcKey, Role};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Processes whose allocator is followed: the ranks of one machine.
const MOST: usize = 16;
/// Fewer readings show nothing.
const FEWEST: u64 = 4;
/// What is held beside tensors is worth a word from this part of all that is held.
const SLACK_PART: f64 = 0.1;

/// The facts in a mark that are about allocators.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Facts {
    gpu_allocated_bytes: Option<f64>,
    gpu_reserved_bytes: Option<f64>,
    tensors: Option<f64>,
    tensor_cpu_bytes: Option<f64>,
    tensor_device_bytes: Option<f64>,
}

/// First and newest value of something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) first: f64,
    pub(crate) last: f64,
}

impl Ends {
    pub(crate) fn take(ends: &mut Option<Self>, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite() && *value >= 0.0) {
            ends.get_or_insert(Self { first: value, last: value }).last = value;
        }
    }

    pub(crate) fn grown(self) -> f64 {
        self.last - self.first
    }

    /// The same as a part of what was there first.
    pub(crate) fn grown_part(self) -> Option<f64> {
        (self.first > 0.0).then(|| self.grown() / self.first)
    }
}

/// What tensors did, as the job counted them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tensors {
    pub(crate) count: Option<Ends>,
    pub(crate) cpu: Option<Ends>,
    pub(crate) device: Option<Ends>,
}

impl Tensors {
    /// Those of two processes; what one of them does not tell is not known of both.
    fn and(self, other: Self) -> Self {
        let sum = |a: Option<Ends>, b: Option<Ends>| {
            a.zip(b).map(|(a, b)| Ends { first: a.first + b.first, last: a.last + b.last })
        };
        Self {
            count: sum(self.count, other.count),
            cpu: sum(self.cpu, other.cpu),
            device: sum(self.device, other.device),
        }
    }
}

/// What one process told of its allocator.
#[derive(Clone, Debug)]
struct Told {
    allocated: Levels,
    /// Held by the allocator and in no tensor.
    slack: Levels,
    reserved: Option<Ends>,
    tensors: Tensors,
}

/// Who tells of an allocator. A mark that came over the socket names no process: it is the trainer's, of its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Speaker {
    Process(ProcKey),
    Trainer(Option<u32>),
}

impl Speaker {
    pub(crate) fn of(mark: &Mark) -> Self {
        mark.process.map_or(Self::Trainer(mark.rank), Self::Process)
    }
}

/// What all of them told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allocators(BTreeMap<Speaker, Told>);

impl Allocators {
    /// Takes the JSON of a mark; what is about something else is passed over.
    pub(crate) fn push(
        &mut self,
        speaker: Speaker,
        seconds: f64,
        step: Option<f64>,
        extra: &str,
    ) -> Option<f64> {
        if !(extra.contains("\"gpu_") || extra.contains("\"tensor")) {
            return None;
        }
        let facts: Facts = serde_json::from_str(extra).ok()?;
        if !self.0.contains_key(&speaker) && self.0.len() >= MOST {
            return None;
        }
        let new = || Told {
            allocated: Levels::new(),
            slack: Levels::new(),
            reserved: None,
            tensors: Tensors::default(),
        };
        let told = self.0.entry(speaker).or_insert_with(new);
        if let Some(allocated) = facts.gpu_allocated_bytes {
            told.allocated.push(Point::one(seconds, allocated), step);
            if let Some(reserved) = facts.gpu_reserved_bytes {
                told.slack.push(Point::one(seconds, (reserved - allocated).max(0.0)), step);
            }
        }
        Ends::take(&mut told.reserved, facts.gpu_reserved_bytes);
        Ends::take(&mut told.tensors.count, facts.tensors);
        Ends::take(&mut told.tensors.cpu, facts.tensor_cpu_bytes);
        Ends::take(&mut told.tensors.device, facts.tensor_device_bytes);
        facts.tensors
    }

    /// What the tensors of one process did, or of several together.
    pub(crate) fn tensors(&self, of: &Subject, role: Role) -> Tensors {
        let unnamed = || self.0.get(&Speaker::Trainer(None)).filter(|_| role == Role::Trainer && of.is_one());
        let own = |process: &ProcKey| self.0.get(&Speaker::Process(*process)).or_else(unnamed);
        let each = of.members.iter().map(|process| own(process).map(|told| told.tensors).unwrap_or_default());
        each.reduce(Tensors::and).unwrap_or_default()
    }
}

impl LiveJudge {
    /// Which process a speaker is: where it names none, the trainer with its rank, or else the largest.
    fn process_of(&self, speaker: Speaker, role: &BTreeMap<ProcKey, Role>) -> Option<ProcKey> {
        let rank = match speaker {
            Speaker::Process(key) => return Some(key),
            Speaker::Trainer(rank) => rank,
        };
        let ranked = |key: &ProcKey| {
            let env = self.processes.get(key).map(|process| process.env.as_slice()).unwrap_or_default();
            rank.is_some_and(|rank| env.contains(&("RANK".to_owned(), rank.to_string())))
        };
        let held = |key: &ProcKey| self.tracks.get(key).map(|track| track.footprint.peak);
        let trainers = role.iter().filter(|(_, role)| **role == Role::Trainer).map(|(key, _)| *key);
        trainers.max_by_key(|key| (ranked(key), held(key)))
    }

    /// Those who tell what their GPU memory is for.
    fn tellers(&self, role: &BTreeMap<ProcKey, Role>) -> impl Iterator<Item = (ProcKey, &Told)> {
        let enough = |told: &Told| told.allocated.seconds.samples() >= FEWEST;
        let telling = self.allocators.0.iter().filter(move |(_, told)| enough(told));
        telling.filter_map(|(speaker, told)| Some((self.process_of(*speaker, role)?, told)))
    }

    /// The processes that do.
    pub(crate) fn tells_of_gpu(&self, role: &BTreeMap<ProcKey, Role>) -> BTreeSet<ProcKey> {
        self.tellers(role).map(|(key, _)| key).collect()
    }

    /// Tensors that pile up on a GPU, and memory that its allocator holds for none of them.
    pub(crate) fn allocator_verdicts(&self, role: &BTreeMap<ProcKey, Role>) -> Vec<Verdict> {
        let mut out = Vec::new();
        for (key, told) in self.tellers(role) {
            let told = &Told {
                allocated: self.up_to_now(&told.allocated, Some(key)),
                slack: self.up_to_now(&told.slack, Some(key)),
                ..*told
            };
            let room = self.gpu_limit(key);
            let role = role.get(&key).copied().unwrap_or(Role::Unknown);
            let found = self.in_tensors(told, room).into_iter().chain(self.beside_tensors(told, room));
            out.extend(found.map(|found| Verdict { process: Some(self.named(key, role)), ..found }));
        }
        out
    }

    /// A judge for readings of GPU memory, with all that is known beside them.
    pub(crate) fn asked_of(&self, levels: &Levels, limit: Option<(Bytes, String)>) -> Judge {
        let by_steps = self.marks.pace().filter(|_| levels.steps.samples() >= FEWEST_STEPS);
        let mut judge = if by_steps.is_some() { levels.steps.clone() } else { levels.seconds.clone() };
        let (limit, limit_from) = limit.unzip();
        judge.set_context(Context { limit, limit_from, ..self.marks.known(&self.asked) });
        judge.set_resolution(self.doubt);
        judge.set_pace(by_steps);
        judge.set_running(self.running);
        judge.set_drawn(self.drawn);
        judge
    }

    /// Readings of a process up to its end, or up to now.
    pub(crate) fn up_to_now(&self, levels: &Levels, process: Option<ProcKey>) -> Levels {
        let died = process.and_then(|key| self.processes.get(&key)).and_then(|found| found.died);
        let end = died.map_or(self.now, |at| at.seconds().min(self.now));
        levels.extended(end, self.marks.step)
    }

    fn in_tensors(&self, told: &Told, room: Option<Bytes>) -> Option<Verdict> {
        let limit = room.map(|room| (room, "the GPU's memory".to_owned()));
        let mut verdict = self.asked_of(&told.allocated, limit).verdict();
        verdict.tell_tensors(told.tensors.count);
        (verdict.group != Group::Flat).then_some(verdict)
    }

    /// What is held for no tensor, where it grows.
    fn beside_tensors(&self, told: &Told, room: Option<Bytes>) -> Option<Verdict> {
        let tensors = Bytes::from_f64(told.allocated.newest().unwrap_or(0.0));
        let limit =
            room.map(|room| (room.saturating_sub(tensors), "the GPU's memory beside tensors".to_owned()));
        fragmentation(&self.asked_of(&told.slack, limit), told.reserved?.last, self.doubt, &GPU)
    }
}

impl Verdict {
    /// Says of a curve of allocated GPU memory that tensors are what it holds.
    pub(crate) fn tell_tensors(&mut self, count: Option<Ends>) {
        self.headline = format!("GPU tensors: {}", self.headline);
        self.evidence.push(format!(
            "memory in use by tensors went from {} to {}",
            size(self.floor.start_bytes),
            size(self.floor.end_bytes)
        ));
        let counted = count
            .map(|count| format!("live tensors went from {} to {}", number(count.first), number(count.last)));
        self.evidence.extend(counted);
    }
}

/// How memory that an allocator holds for nothing is spoken of.
pub(crate) struct Slack {
    what: &'static str,
    nothing: &'static str,
    /// What is subtracted from what.
    difference: (&'static str, &'static str),
    because: &'static str,
    advice: &'static str,
}

pub(crate) const GPU: Slack = Slack {
    what: "GPU memory",
    nothing: "tensor",
    difference: ("reserved", "allocated"),
    because: "it is in no tensor: the allocator keeps it in pieces that new shapes don't fit into",
    advice: "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the job starts, and use few different input lengths",
};

pub(crate) const HEAP: Slack = Slack {
    what: "the heap",
    nothing: "live object",
    difference: ("heap total", "heap used"),
    because: "it is in no live object: the allocator keeps what was freed",
    advice: "set MALLOC_ARENA_MAX=2 or preload jemalloc; `lowtide squeeze` shows what a trim gives back",
};

/// Fragmentation: what an allocator holds for nothing grows by a part of all it holds that counts.
pub(crate) fn fragmentation(judge: &Judge, held: f64, doubt: f64, slack: &Slack) -> Option<Verdict> {
    let seen = judge.verdict();
    let (start, end) = (seen.floor.start_bytes, seen.floor.end_bytes);
    let grown = end - start;
    if seen.group == Group::Flat || grown <= doubt || grown < SLACK_PART * held {
        return None;
    }
    let (all, used) = slack.difference;
    let line = format!(
        "{all} minus {used} went from {} to {}; {all} in all: {}",
        size(start),
        size(end),
        size(held)
    );
    if seen.group == Group::TooEarly {
        let headline = format!("{} for no {}: {}", slack.what, slack.nothing, seen.headline);
        let evidence = [vec![line], seen.evidence].concat();
        return Some(Verdict { headline, evidence, ..seen });
    }
    // Its numbers stay those of the curve: what grows without end fills the rest, whatever it is called.
    let mut verdict = Verdict { verdict: Kind::AllocatorKept, group: Kind::AllocatorKept.group(), ..seen };
    for told in &mut verdict.explanations {
        told.kind = if told.kind == Kind::Leak { Kind::AllocatorKept } else { told.kind };
    }
    verdict.headline = format!(
        "fragmentation of {}: the allocator holds {} for no {}, {} more than at the start",
        slack.what,
        size(end),
        slack.nothing,
        size(grown)
    );
    verdict.evidence.insert(0, line);
    verdict.ruled_out = vec![RuledOut { kind: Kind::Leak, because: slack.because.to_owned() }];
    verdict.advice = vec![slack.advice.to_owned()];
    verdict.disprove =
        format!("run it with that setting: {all} minus {used} must stay below {}", size(start + 0.5 * grown));
    Some(verdict)
}

/// Steps seen before a curve is drawn over steps.
const FEWEST_STEPS: u64 = 10;
