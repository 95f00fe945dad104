//! Who plays which role, stretch by stretch of a run, told from what was known at the end of each stretch.
//!
//! What was sent can't be taken back, so a role that is learnt later never changes what went out under another name:
//! a run sent while it goes on and the same run sent once at its end give the same series. Not here: how a role is
//! found (see `verdict::roles`).

use crate::series;
use lowtide_model::{ProcKey, Process, Recording, Role, SampleRow, Tick};
use lowtide_verdict::{Footprint, rank_among, roles};
use std::collections::BTreeMap;

/// Length of a stretch.
pub(super) const STRETCH: Tick = Tick(10_000_000_000);
/// A process that grew by less than this part since roles were last looked at plays what it played.
const GROWN: f64 = 1.05;

/// Labels that name a run.
pub(super) type Base = Vec<(&'static str, String)>;

/// The roles of one stretch.
#[derive(Clone, Debug, Default)]
pub(super) struct Cast {
    pub(super) roles: BTreeMap<ProcKey, Role>,
    /// The process of each role that held most so far: the one whose need is told.
    pub(super) largest: BTreeMap<Role, ProcKey>,
    pub(super) base: Base,
}

/// Learns the cast of one stretch after the other.
pub(super) struct Casting<'a> {
    recording: &'a Recording,
    held: BTreeMap<ProcKey, Footprint>,
    marks: usize,
    gpus: usize,
    seen: Seen,
    cast: Cast,
}

/// What the roles were last told from.
#[derive(Default, PartialEq)]
struct Seen {
    born: usize,
    marked: usize,
    peaks: BTreeMap<ProcKey, u64>,
}

impl<'a> Casting<'a> {
    pub(super) const fn new(recording: &'a Recording) -> Self {
        let seen = Seen { born: 0, marked: 0, peaks: BTreeMap::new() };
        let cast = Cast { roles: BTreeMap::new(), largest: BTreeMap::new(), base: Vec::new() };
        Self { recording, held: BTreeMap::new(), marks: 0, gpus: 0, seen, cast }
    }

    /// The cast of the stretch that ends at `end`, in which `rows` were written.
    pub(super) fn next(&mut self, end: Tick, rows: &[SampleRow]) -> &Cast {
        for row in rows {
            let held = self
                .held
                .entry(row.process)
                .or_insert(Footprint { first: row.rss.last, ..Footprint::default() });
            held.peak = held.peak.max(row.rss.max);
        }
        let marks = &self.recording.marks;
        while let Some(mark) = marks.get(self.marks).filter(|mark| mark.tick < end) {
            self.marks += 1;
            if let Some(held) =
                mark.process.filter(|_| mark.kind.is_progress()).and_then(|key| self.held.get_mut(&key))
            {
                held.marks = true;
            }
        }
        while let Some(row) = self.recording.gpus.get(self.gpus).filter(|row| row.tick < end) {
            self.gpus += 1;
            if let Some(held) = row.process.and_then(|key| self.held.get_mut(&key)) {
                held.gpu = held.gpu.max(row.used.max);
            }
        }
        self.learn(end);
        &self.cast
    }

    fn learn(&mut self, end: Tick) {
        let born = self.recording.processes.iter().filter(|process| process.born < end).count();
        let marked = self.held.values().filter(|held| held.marks).count();
        let grown = |(key, held): (&ProcKey, &Footprint)| {
            self.seen.peaks.get(key).is_none_or(|old| held.peak.as_f64() > *old as f64 * GROWN)
        };
        if born == self.seen.born && marked == self.seen.marked && !self.held.iter().any(grown) {
            return;
        }
        let peaks = self.held.iter().map(|(key, held)| (*key, held.peak.0)).collect();
        self.seen = Seen { born, marked, peaks };
        let known: Vec<Process> =
            self.recording.processes.iter().filter(|process| process.born < end).cloned().collect();
        let found = roles(&known, &self.held);
        self.cast.roles = found.iter().map(|found| (found.process, found.role)).collect();
        self.cast.largest.clear();
        for (key, role) in &self.cast.roles {
            let peak = |key: &ProcKey| self.held.get(key).map_or(0, |held| held.peak.0);
            let most = self.cast.largest.entry(*role).or_insert(*key);
            if peak(key) > peak(most) {
                *most = *key;
            }
        }
        let marks = &self.recording.marks[..self.marks];
        self.cast.base = series::labels(&self.recording.meta, rank_among(known.iter(), marks));
    }
}
