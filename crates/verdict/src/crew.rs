//! Processes that do one work side by side and are told as one: the workers of a loader.
//!
//! Four workers that each keep what they meet are one cache, not four findings, and what one of them holds says little: each
//! meets a part of the data. Not here: what a process is for (see `roles`), the arithmetic of such a cache (see `split`).

use crate::copies::copies_pages;
use crate::live::LiveJudge;
use crate::run::{ALIKE, FEWEST_WORKERS, WORTH};
use crate::split::Split;
use crate::track::Track;
use lowtide_model::{ProcKey, Role};
use std::collections::{BTreeMap, BTreeSet};

/// The workers of one loader are started one after the other, with no more than so many seconds between two.
const STARTED_TOGETHER: f64 = 5.0;

/// Whom an answer is about: one process, or several that are told as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The one that grew most.
    pub(crate) key: ProcKey,
    pub(crate) members: Vec<ProcKey>,
}

impl Subject {
    pub(crate) fn one(key: ProcKey) -> Self {
        Self { key, members: vec![key] }
    }

    pub(crate) fn is_one(&self) -> bool {
        self.members.len() == 1
    }

    /// Those that are told with it.
    pub(crate) fn others(&self) -> Vec<ProcKey> {
        self.members.iter().copied().filter(|key| *key != self.key).collect()
    }
}

/// Loader workers by the loader they belong to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crews(Vec<Vec<ProcKey>>);

impl Crews {
    /// How many work beside a process, itself counted.
    fn size_of(&self, key: ProcKey) -> usize {
        self.0.iter().find(|crew| crew.contains(&key)).map_or(1, Vec::len)
    }
}

impl LiveJudge {
    /// Workers that were started together and lived side by side. Those of one epoch after the other are none.
    pub(crate) fn crews(&self, role: &BTreeMap<ProcKey, Role>) -> Crews {
        let gone: BTreeSet<ProcKey> = self.generations();
        let mut of: BTreeMap<ProcKey, Vec<ProcKey>> = BTreeMap::new();
        for key in self.tracks.keys().filter(|key| !gone.contains(key)) {
            let worker = role.get(key) == Some(&Role::LoaderWorker);
            let parent = self.processes.get(key).and_then(|process| process.parent);
            if let Some(parent) = parent.filter(|_| worker) {
                of.entry(parent).or_default().push(*key);
            }
        }
        let mut crews = Vec::new();
        for mut workers in of.into_values() {
            workers.sort_by_key(|key| self.processes.get(key).map(|process| process.born));
            let apart = |a: &ProcKey, b: &ProcKey| self.born(b) - self.born(a) <= STARTED_TOGETHER;
            crews.extend(workers.chunk_by(apart).filter(|crew| self.side_by_side(crew)).map(<[_]>::to_vec));
        }
        Crews(crews)
    }

    fn born(&self, key: &ProcKey) -> f64 {
        self.processes.get(key).map_or(0.0, |process| process.born.seconds())
    }

    fn side_by_side(&self, crew: &[ProcKey]) -> bool {
        let died = crew.iter().filter_map(|key| self.processes.get(key)?.died).min();
        let born = crew.last().map_or(0.0, |key| self.born(key));
        crew.len() >= FEWEST_WORKERS && died.is_none_or(|died| died.seconds() > born)
    }

    /// Whom to judge: crews that grew alike as one, everybody else alone. One worker that grows by itself is not hidden in its crew.
    pub(crate) fn subjects(&self, crews: &Crews) -> Vec<Subject> {
        let grown = |key: &ProcKey| self.tracks.get(key).map_or(0.0, Track::climbed);
        let mut crews: Vec<Subject> = crews
            .0
            .iter()
            .filter(|crew| {
                let (least, most) =
                    crew.iter().map(grown).fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
                let copies = crew.iter().filter_map(|key| self.tracks.get(key)).any(copies_pages);
                least > WORTH * self.doubt && most <= ALIKE * least && !copies
            })
            .filter_map(|crew| {
                let key = crew.iter().max_by(|a, b| grown(a).total_cmp(&grown(b)))?;
                Some(Subject { key: *key, members: crew.clone() })
            })
            .collect();
        let alone = |key: &&ProcKey| !crews.iter().any(|crew| crew.members.contains(key));
        let alone: Vec<Subject> = self.tracks.keys().filter(alone).map(|key| Subject::one(*key)).collect();
        crews.extend(alone);
        crews
    }

    /// How a pass over the data is dealt out: among the ranks, and in each among its workers.
    pub(crate) fn split(&self, subject: &Subject, crews: &Crews, world: Option<f64>) -> Split {
        let world = world.filter(|world| *world >= 1.0).unwrap_or(1.0);
        let workers = crews.size_of(subject.key) as f64;
        Split { parts: world * workers, own: subject.members.len() as f64 }
    }

    /// The curves of a subject as one, as of now.
    pub(crate) fn track_of(&self, subject: &Subject) -> Option<Track> {
        let now = |key: &ProcKey| {
            let (track, process) = (self.tracks.get(key)?, self.processes.get(key));
            let died = process.and_then(|process| process.died).is_some();
            Some(if died { track.ended() } else { track.extended(self.now, self.marks.step) })
        };
        if subject.is_one() {
            return now(&subject.key);
        }
        let all: Vec<(Track, f64)> = subject
            .members
            .iter()
            .filter_map(|key| {
                let track = now(key)?;
                // A forked one begins with all that its parent has.
                let base = if self.is_forked(key) { track.first_need() } else { 0.0 };
                Some((track, base))
            })
            .collect();
        Track::side_by_side(&all)
    }
}
