//! Squeezes in the course of a session: asked for over the socket, carried out by the agent inside the process.
//!
//! One at a time. The request lies in the process's mark page; what the agent says of it comes with its marks, and every
//! tick looks whether it is done, or will never be.

use super::Session;
use crate::marks::SqueezeRefusal;
use crate::socket::SqueezeAsked;
use crate::squeezing::{MARK, Squeezed};
use crate::{agent, remote};
use lowtide_model::{Mark, MarkKind, ProcKey, Tick};
use lowtide_probe::{Root, program};
use lowtide_wire::Answer;
use std::time::Duration;

/// A program that makes steps or takes batches does so sooner than this.
const PATIENCE: Duration = Duration::from_secs(60);
/// With steps the agent waits for one to end, and for ten more.
const STEP_PATIENCE: Duration = Duration::from_mins(10);
/// Where no steps are told, the interpreter is asked to call the agent this often: it looks again after ten seconds.
const NUDGE_EVERY: Duration = Duration::from_secs(11);
/// A command is cut at this length.
const COMMAND_CHARS: usize = 200;

/// Why nothing came, where the interpreter was asked to call the agent.
const WAITS: &str =
    "the agent did not come round to it: the main thread waits or computes in C and runs no Python code";
/// Why nothing came elsewhere.
const NO_STEPS: &str = "the agent did not come round to it: it works at a step's end or where a batch is taken from a loader, and \
    this process told neither; `lowtide.step(n)` in its loop tells them, and a Python 3.14 needs none";

/// A request under way.
pub(crate) struct Squeeze {
    client: u64,
    process: ProcKey,
    number: u64,
    /// When something last moved: a figure came, or a step ended.
    moved: Tick,
    steps: u64,
    /// When the interpreter was last asked to call the agent; none where it can't be.
    nudged: Option<Tick>,
    report: Squeezed,
}

impl Session<'_> {
    /// Takes the questions of clients.
    pub(super) fn take_squeezes(&mut self, asked: Vec<SqueezeAsked>) {
        for ask in asked {
            if let Err(text) = self.begin_squeeze(&ask) {
                self.tell_client(ask.client, &Answer::Error { text });
            }
        }
    }

    fn begin_squeeze(&mut self, ask: &SqueezeAsked) -> Result<(), String> {
        if self.squeeze.is_some() {
            return Err("another squeeze of this run is under way".to_owned());
        }
        let member = self.crew.by_pid(ask.pid);
        let facts = &member.ok_or(format!("process {} does not belong to this run", ask.pid))?.facts;
        let process = facts.key;
        let command: String =
            lowtide_store::mask_argv(&facts.argv).join(" ").chars().take(COMMAND_CHARS).collect();
        if !self.marks.knows(process) {
            // A process that has just begun: its page came since the last tick.
            let mut entries = Vec::new();
            self.marks.hear(self.live.now);
            self.read_marks(&mut entries);
            self.write(entries);
        }
        let number = self.marks.ask_squeeze(process).map_err(|refusal| refusal_words(ask.pid, &refusal))?;
        let steps = self.marks.asked(process).map_or(0, |(_, steps)| steps);
        self.squeeze = Some(Squeeze {
            client: ask.client,
            process,
            number,
            moved: self.live.now,
            steps,
            nudged: None,
            report: Squeezed::of(process, command),
        });
        self.nudge();
        Ok(())
    }

    /// Has a Python 3.14 call the agent between two bytecodes, where no steps do.
    fn nudge(&mut self) {
        let (Some(work), Some(private)) = (&mut self.squeeze, &self.options.private_dir) else { return };
        let (root, pid) = (Root::live(), work.process.pid);
        let found = program(&root, pid);
        let able = work.steps == 0 && found.as_known().is_some_and(remote::takes_an_agent);
        let asked = able && remote::nudge(&root, pid, found, &agent::folder(private)).is_ok();
        work.nudged = asked.then_some(self.live.now);
    }

    /// Takes a mark that may hold figures.
    pub(super) fn hear_squeeze(&mut self, mark: &Mark) {
        let Some(work) = self.squeeze.as_mut().filter(|work| mark.process == Some(work.process)) else {
            return;
        };
        let extra = mark.extra.as_deref().filter(|extra| extra.starts_with(MARK));
        if mark.kind == MarkKind::Info && extra.is_some_and(|extra| work.report.take(work.number, extra)) {
            work.moved = self.live.now;
        }
    }

    /// Whether it is done, or will never be.
    pub(super) fn see_to_squeeze(&mut self) {
        let Some(work) = &mut self.squeeze else { return };
        let now = self.live.now;
        let Some((asked, steps)) = self.marks.asked(work.process) else {
            return self.end_squeeze(Some("the process ended meanwhile"));
        };
        if steps != work.steps {
            (work.steps, work.moved) = (steps, now);
        }
        if self.marks.answered(work.process).1 == work.number {
            return self.end_squeeze(None);
        }
        if asked > work.number {
            return self.end_squeeze(Some("the job was asked to save and stop meanwhile"));
        }
        let patience = if steps > 0 { STEP_PATIENCE } else { PATIENCE };
        if now.since(work.moved) >= patience {
            let why = if work.nudged.is_some() { WAITS } else { NO_STEPS };
            self.marks.withdraw(work.process, work.number);
            self.end_squeeze(Some(why));
        } else if work.nudged.is_some_and(|nudged| now.since(nudged) >= NUDGE_EVERY) {
            self.nudge();
        }
    }

    fn end_squeeze(&mut self, why_not_whole: Option<&str>) {
        let Some(mut work) = self.squeeze.take() else { return };
        let answer = match why_not_whole {
            Some(why) if work.report.ways.is_empty() => Answer::Error { text: why.to_owned() },
            why => {
                work.report.incomplete = why.map(str::to_owned);
                Answer::Squeeze { report: serde_json::to_value(&work.report).unwrap_or_default() }
            }
        };
        self.tell_client(work.client, &answer);
    }
}

fn refusal_words(pid: u32, refusal: &SqueezeRefusal) -> String {
    match refusal {
        SqueezeRefusal::NoAgent => format!(
            "there is no agent in process {pid}: it comes into a Python that `lowtide run` started without -I, -E or -S, and into a \
             running 3.14 by `lowtide watch --agent`"
        ),
        SqueezeRefusal::Withdrew => format!("the agent in process {pid} failed inside and withdrew"),
        SqueezeRefusal::Cannot => {
            format!("what writes the marks of process {pid} says that it cannot clean up")
        }
        SqueezeRefusal::Stopping => format!("process {pid} was asked to save and stop"),
        SqueezeRefusal::Unwritable(error) => {
            format!("the mark page of process {pid} cannot be written: {error}")
        }
    }
}
