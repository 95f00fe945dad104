//! Marks in the course of a session: pages read at every tick and at every death, marks that come over the socket, and
//! the one line that says where the agent is.

use super::{Once, Session, Subject};
use crate::marks::Moment;
use crate::python::{self, Python};
use crate::socket::Wanted;
use lowtide_model::{Bytes, EventKind, Mark, ProcKey, Role, Tick};
use lowtide_store::Entry;
use lowtide_wire::Answer;
use std::time::Duration;

/// The line about the agent waits this long for workers to start ...
const SETTLE: Duration = Duration::from_secs(4);
/// ... or, while no framework is hooked, this long for it to be imported.
const LONGEST: Duration = Duration::from_secs(10);
/// A Python that has lived this long without a page has no agent.
pub(super) const LATE: Duration = Duration::from_secs(5);

impl Session<'_> {
    fn moment(&self) -> Moment {
        Moment { now: self.live.now, started_boot_ns: self.crew.started_boot_ns() }
    }

    /// Takes what pages say since the last tick.
    pub(super) fn read_marks(&mut self, entries: &mut Vec<Entry>) {
        let (moment, crew) = (self.moment(), &self.crew);
        let begin = entries.len();
        self.marks.read(moment, |key| crew.get(key).is_some(), entries);
        for entry in entries.iter().skip(begin) {
            if let Entry::Mark(Mark { process: Some(key), kind, .. }) = entry
                && kind.is_progress()
            {
                self.crew.marks(*key);
            }
        }
        for entry in entries.iter().skip(begin) {
            if let Entry::Mark(mark) = entry {
                self.censuses.take(mark);
                self.hear_squeeze(mark);
            }
        }
        self.see_to_squeeze();
    }

    /// A process ended: what its page still holds.
    pub(super) fn last_marks(&mut self, key: ProcKey, entries: &mut Vec<Entry>) {
        let moment = self.moment();
        self.marks.ended(key, moment, entries);
        self.censuses.forget(key);
    }

    /// The recording ends.
    pub(super) fn rest_of_marks(&mut self, entries: &mut Vec<Entry>) {
        let (moment, crew) = (self.moment(), &self.crew);
        self.marks.rest(moment, |key| crew.get(key).is_some(), entries);
    }

    /// Answers the socket's clients and takes their marks.
    pub(super) fn answer(&mut self) {
        let Some(mut socket) = self.socket.take() else {
            return;
        };
        let heard = socket.serve(|wanted| match wanted {
            Wanted::History => Answer::History { points: self.live.history.points() },
            Wanted::Snapshot => Answer::Snapshot(Box::new(self.snapshot())),
        });
        self.socket = Some(socket);
        self.take_scans(heard.scans);
        self.take_squeezes(heard.squeezes);
        let said = heard.marks;
        if said.is_empty() {
            return;
        }
        if said.iter().any(|said| said.kind.is_progress()) {
            self.crew.marks_unnamed();
        }
        let now = self.crew.tick_of(lowtide_probe::clock::boot_ns()).0;
        let marks = &mut self.marks;
        // A nanosecond apart, so that their order stays whoever sorts them.
        let ticks = (now..).map(Tick);
        let marks = said.into_iter().zip(ticks).filter_map(|(said, tick)| marks.said(said, tick));
        let entries = marks.map(Entry::Mark).collect();
        self.write(entries);
    }

    /// One calm line, once it is known who has the agent and who cannot have it.
    pub(super) fn say_who_has_the_agent(&mut self) {
        if self.live.said.contains(&Once::Agent) {
            return;
        }
        if matches!(self.subject, Subject::Stranger(_)) {
            return self.see_to_a_strangers_agent();
        }
        if !self.options.agent {
            return;
        }
        let now = self.live.now;
        let ready = match self.marks.first() {
            Some(first) => {
                let since = now.since(first);
                since >= LONGEST || (since >= SETTLE && self.marks.hooked())
            }
            None => now.since(Tick::START) >= LATE && self.pythons_without_agent().next().is_some(),
        };
        if !ready {
            return;
        }
        let text = self.agent_words();
        self.say_of_the_agent(&text);
    }

    fn agent_words(&mut self) -> String {
        let agents = self.marks.agents();
        let mut parts = Vec::new();
        if agents > 0 {
            parts.push(in_processes(agents));
        }
        parts.extend(self.worker_words());
        for (pid, flag) in self.pythons_without_agent().take(2) {
            parts.push(match flag {
                Python::Shut(flag) => format!("no agent in process {pid}, a Python started with {flag}: lowtide.Callback() brings its marks"),
                Python::Open => format!("no agent in process {pid}, a Python that did not load it: lowtide.Callback() brings its marks"),
            });
        }
        parts.join("; ")
    }

    /// The one calm line.
    pub(super) fn say_of_the_agent(&mut self, text: &str) {
        self.live.said.insert(Once::Agent);
        self.event(EventKind::Note, None, text.to_owned());
        self.listener.say(text);
    }

    fn worker_words(&mut self) -> Option<String> {
        let now = self.live.now;
        let workers: Vec<ProcKey> = {
            let roles = self.crew.roles(now);
            roles.iter().filter(|(_, (role, _))| *role == Role::LoaderWorker).map(|(key, _)| *key).collect()
        };
        let sizes = workers.iter().filter_map(|key| self.crew.get(*key)?.newest()).map(|row| row.rss.last.0);
        let sum: u64 = sizes.sum();
        let count = workers.len();
        let each = Bytes(sum.checked_div(count as u64)?);
        let noun = if count == 1 { "loader worker" } else { "loader workers" };
        Some(format!("{count} {noun}, about {each} each"))
    }

    /// Pythons of the job that should have the agent by now and have not, with the flag that keeps it out.
    fn pythons_without_agent(&self) -> impl Iterator<Item = (u32, Python)> {
        let now = self.live.now;
        let old = move |born: Tick| now.since(born) >= LATE;
        let members = self.crew.members().filter(move |member| member.facts.execed && old(member.facts.born));
        members
            .filter(|member| !self.marks.knows(member.facts.key))
            .filter_map(|member| Some((member.facts.key.pid, python::of(&member.facts.argv)?)))
    }
}

pub(super) fn in_processes(agents: usize) -> String {
    format!("agent in {agents} {}", if agents == 1 { "process" } else { "processes" })
}
