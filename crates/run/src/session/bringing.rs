//! The agent in a job that nobody started through us: brought in when asked for, and told plainly when it can't come.
//!
//! Observing changes nothing, so without `--agent` nothing is done and one line says what could be.

use super::marking::{LATE, in_processes};
use super::{Once, Session};
use crate::agent;
use crate::crew::Member;
use crate::python;
use crate::remote::{self, Folders, Refusal};
use lowtide_model::{ProcKey, Reading};
use lowtide_probe::{Program, Root};
use std::error::Error as _;

/// Reasons that are said; a job of a hundred ranks has the same one a hundred times.
const MOST_SAID: usize = 2;

impl Session<'_> {
    /// Brings the agent in where it was asked for, and says once what came of it.
    pub(super) fn see_to_a_strangers_agent(&mut self) {
        if !self.options.agent {
            return self.say_what_an_agent_would_need();
        }
        let Some((since, asked)) = &self.live.asked else {
            return self.bring_the_agent();
        };
        let waits = asked.iter().any(|key| self.crew.get(*key).is_some() && !self.marks.knows(*key));
        if waits && self.live.now.since(*since) < LATE {
            return;
        }
        let text = match (self.marks.agents(), asked.first()) {
            (0, None) => return,
            (0, Some(key)) => format!(
                "process {} was asked to load the agent and has not yet: it does when its main thread next runs Python code",
                key.pid
            ),
            (agents, None) => in_processes(agents),
            (agents, Some(_)) => format!(
                "{}, brought in while the job ran: steps count from here unless a framework has a number",
                in_processes(agents)
            ),
        };
        self.say_of_the_agent(&text);
        self.show(text);
    }

    /// The Pythons of the job that have no page yet.
    fn without_page(&self) -> Vec<(ProcKey, Reading<Program>)> {
        let members = self.crew.members().map(|member| &member.facts);
        let without = members.filter(|facts| !self.marks.knows(facts.key));
        let root = Root::live();
        without
            .filter_map(|facts| Some((facts.key, remote::python(&root, facts.key.pid, &facts.argv)?)))
            .collect()
    }

    fn say_what_an_agent_would_need(&mut self) {
        let is_python = |member: &Member| python::of(&member.facts.argv).is_some();
        if self.marks.folder().is_some() || !self.crew.members().any(is_python) {
            return;
        }
        let pythons = self.without_page();
        let Some((key, _)) = pythons.first() else { return };
        let able = |program: &Reading<Program>| program.as_known().is_some_and(remote::takes_an_agent);
        let way = match pythons.iter().find(|(_, program)| able(program)) {
            Some((key, _)) => format!("`lowtide watch --agent {}` brings lowtide's agent into it", key.pid),
            None => format!(
                "only Python 3.14 and later take lowtide's agent while they run; `lowtide mark --run {}` can mark it",
                key.pid
            ),
        };
        self.live.said.insert(Once::Agent);
        self.warn(format!("no steps or epochs: this Python was not started by `lowtide run`; {way}"));
    }

    fn bring_the_agent(&mut self) {
        let (Some(private), Some(marks)) = (&self.options.private_dir, self.marks.folder()) else {
            self.live.said.insert(Once::Agent);
            return self.warn("no agent: there is no private folder to put it into".to_owned());
        };
        let folder = agent::folder(private);
        let folders = Folders { agent: &folder, marks };
        let (mut asked, mut refused) = (Vec::new(), Vec::new());
        for (key, program) in self.without_page() {
            match remote::ask(&Root::live(), key.pid, program, folders) {
                Ok(()) => asked.push(key),
                Err(refusal) => refused.push((key, refusal)),
            }
        }
        if asked.is_empty() {
            agent::clear_unused(private);
        }
        if asked.is_empty() && refused.is_empty() && self.marks.agents() == 0 {
            self.warn("no agent: no process of this job is a Python that lowtide knows".to_owned());
        }
        for (key, refusal) in refused.iter().take(MOST_SAID) {
            self.warn(words(*key, refusal));
        }
        self.live.asked = Some((self.live.now, asked));
    }
}

fn words(key: ProcKey, refusal: &Refusal) -> String {
    let because = refusal.source().map(|cause| format!(" ({cause})")).unwrap_or_default();
    format!("no agent in process {0}: {refusal}{because}; `lowtide mark --run {0}` can mark it", key.pid)
}
