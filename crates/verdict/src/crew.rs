//! Processes that do one work side by side and are told as one: the workers of a loader, the ranks of a job.
//!
//! Four workers that each keep what they meet are one cache, not four findings, and what one of them holds says little: each
//! meets a part of the data, and chance makes much of how that part grows. Not here: what a process is for (see `roles`), the arithmetic of such a cache (see `split`).

use crate::copies::copies_pages;
use crate::live::LiveJudge;
use crate::run::{ALIKE, FEWEST_WORKERS, TO_THE_END, WORTH};
use crate::split::Split;
use crate::track::Track;
use lowtide_model::{Context, ProcKey, Process, Role};
use std::collections::{BTreeMap, BTreeSet};

/// The workers of one loader are started one after the other, with no more than so many seconds between two.
const STARTED_TOGETHER: f64 = 5.0;
/// A worker that lived for less than this part of the life of its crew left it.
const LIVED: f64 = 0.9;

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

/// Loader workers that were started together, those of one loader or of a few; or ranks.
#[derive(Clone, Debug)]
struct Crew {
    members: Vec<ProcKey>,
    /// Those that grew and by how much, the most first.
    grown: Vec<(ProcKey, f64)>,
}

impl Crew {
    /// Those that grew, parted where one grew by far more than the next: each part is told as one.
    fn alike(&self) -> Vec<&[(ProcKey, f64)]> {
        let (mut rest, mut parts) = (&self.grown[..], Vec::new());
        while let Some((_, most)) = rest.first() {
            let (alike, others) = rest.split_at(rest.partition_point(|(_, grown)| *most <= ALIKE * grown));
            parts.push(alike);
            rest = others;
        }
        parts.retain(|part| part.len() >= FEWEST_WORKERS);
        parts
    }
}

/// All such crews of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crews(Vec<Crew>);

impl Crews {
    fn of(&self, key: ProcKey) -> Option<&Crew> {
        self.0.iter().find(|crew| crew.members.contains(&key))
    }
}

impl LiveJudge {
    /// Workers, or ranks, that were started together and lived side by side. Those of one epoch after the other are none (`gone`), and neither
    /// are those of which not all are followed: of them each is judged by itself.
    pub(crate) fn crews(&self, role: &BTreeMap<ProcKey, Role>, gone: &BTreeSet<ProcKey>) -> Crews {
        let mut of: BTreeMap<(ProcKey, Role), Vec<ProcKey>> = BTreeMap::new();
        for (key, process) in self.processes.iter().filter(|(key, _)| !gone.contains(key)) {
            let what = if self.tracks.contains_key(key) {
                role.get(key).copied().filter(|role| matches!(role, Role::LoaderWorker | Role::Trainer))
            } else {
                // What one is that nobody followed is not known: a brother of those that were.
                Some(Role::LoaderWorker).filter(|_| process.died.is_none() && self.is_forked(key))
            };
            if let Some(of_one) = process.parent.zip(what) {
                of.entry(of_one).or_default().push(*key);
            }
        }
        let mut crews = Vec::new();
        for mut workers in of.into_values() {
            workers.sort_by_key(|key| self.processes.get(key).map(|process| process.born));
            let together = |a: &ProcKey, b: &ProcKey| self.born(b) - self.born(a) <= STARTED_TOGETHER;
            crews.extend(workers.chunk_by(together).filter_map(|crew| self.crew(crew)));
        }
        Crews(crews)
    }

    fn born(&self, key: &ProcKey) -> f64 {
        self.processes.get(key).map_or(0.0, |process| process.born.seconds())
    }

    /// When a process ended, or now.
    fn ended(&self, key: &ProcKey) -> f64 {
        let died = self.processes.get(key).and_then(|process| process.died);
        died.map_or(self.now, lowtide_model::Tick::seconds)
    }

    /// What was started together as a crew, less those that ended long before the others.
    fn crew(&self, workers: &[ProcKey]) -> Option<Crew> {
        let end = workers.iter().map(|key| self.ended(key)).fold(f64::NEG_INFINITY, f64::max);
        let to_the_end = |key: &&ProcKey| {
            let (life, whole) = (self.ended(key) - self.born(key), end - self.born(key));
            life + TO_THE_END >= whole || life >= LIVED * whole
        };
        let members: Vec<ProcKey> = workers.iter().filter(to_the_end).copied().collect();
        let last = members.iter().map(|key| self.born(key)).fold(f64::NEG_INFINITY, f64::max);
        let tracks: Option<Vec<&Track>> = members.iter().map(|key| self.tracks.get(key)).collect();
        let tracks = tracks.filter(|_| members.iter().all(|key| self.ended(key) > last))?;
        if members.len() < FEWEST_WORKERS {
            return None;
        }
        let copies = tracks.iter().any(|track| copies_pages(track));
        let climbed = members.iter().copied().zip(tracks.iter().map(|track| track.climbed()));
        let mut grown: Vec<(ProcKey, f64)> =
            climbed.filter(|(_, grown)| !copies && *grown > WORTH * self.doubt).collect();
        grown.sort_by(|a, b| b.1.total_cmp(&a.1));
        Some(Crew { members, grown })
    }

    /// Whom to judge: workers that grew alike as one, everybody else alone. One worker that grows by itself is not hidden in its
    /// crew, and neither are those that grow beside others that stay.
    pub(crate) fn subjects(&self, crews: &Crews) -> Vec<Subject> {
        let parts = crews.0.iter().flat_map(Crew::alike);
        let mut told: Vec<Subject> = parts
            .filter_map(|part| {
                let members = part.iter().map(|(key, _)| *key).collect();
                part.first().map(|(key, _)| Subject { key: *key, members })
            })
            .collect();
        let alone = |key: &&ProcKey| !told.iter().any(|crew| crew.members.contains(key));
        let alone: Vec<Subject> = self.tracks.keys().filter(alone).map(|key| Subject::one(*key)).collect();
        told.extend(alone);
        told
    }

    /// How a pass over the data is dealt out: among the ranks, and in each among its workers.
    pub(crate) fn split(
        &self,
        subject: &Subject,
        (crews, role): (&Crews, &BTreeMap<ProcKey, Role>),
        context: &Context,
    ) -> Split {
        let world = context.world_size.filter(|world| *world >= 1.0).unwrap_or(1.0);
        let own = subject.members.len() as f64;
        let examples = context.examples.filter(|examples| *examples >= 1.0);
        if role.get(&subject.key) == Some(&Role::Trainer) {
            let alike = self.grows_like_its_ranks(subject.key, role);
            return Split { parts: world.max(own), own, alike, examples, workers: false };
        }
        // Those that stay beside them, or grow otherwise, belong to another loader.
        let alone = || crews.of(subject.key).map_or(1, |crew| crew.members.len());
        let workers = if subject.is_one() { alone() } else { subject.members.len() };
        let alike = !subject.is_one();
        Split { parts: world * workers as f64, own, alike, examples, workers: true }
    }

    /// Whether a process reads a part of each pass as others do that grow like it. One whose data are read by workers reads none,
    /// and where a rank grows alone it is no cache: the others would fill theirs.
    fn grows_like_its_ranks(&self, key: ProcKey, role: &BTreeMap<ProcKey, Role>) -> bool {
        let is = |other: &ProcKey, wanted| role.get(other) == Some(&wanted);
        let fed = |(other, process): (&ProcKey, &Process)| {
            process.parent == Some(key) && is(other, Role::LoaderWorker)
        };
        if !is(&key, Role::Trainer) || self.processes.iter().any(fed) {
            return false;
        }
        let grown = self.tracks.get(&key).map_or(0.0, Track::climbed_over_steps);
        let mut ranks = self.tracks.iter().filter(|(other, _)| **other != key && is(other, Role::Trainer));
        ranks.all(|(_, track)| ALIKE * track.climbed_over_steps() >= grown)
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
