//! One program that was started again inside a recording: its lives are told together.
//!
//! A restart is a cut point. What each life does is judged by itself; that every one of them climbs the same way and
//! begins again at the bottom says more than any of them alone. Not here: restarts inside a curve that does not know
//! its processes (see `assess`).

use crate::judge::Judge;
use crate::live::LiveJudge;
use crate::phrases::size;
use crate::run::Judged;
use crate::track::Track;
use crate::verdict::{Group, Verdict};
use lowtide_model::{Axis, Context, Event, EventKind, Exit, Metric, ProcKey, Process, Role, Tick};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A life with fewer samples is a failed start.
const FEWEST: u64 = 4;
/// Two that overlap by more than this many seconds are no lives of one program.
const OVERLAP: f64 = 0.5;
/// A program that is done within so many seconds, started again and again, is a task and no job.
const TASK: f64 = 10.0;
/// One that lives this many times as long as another one is not its like.
const LONGER: f64 = 2.0;
/// Starts that are remembered.
const MOST_STARTS: usize = 1024;

/// What a guard did: it started the job again, with the checkpoint in its command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restarts {
    /// The first process of lives; of the first life only where it began from a checkpoint.
    roots: BTreeSet<ProcKey>,
    checkpoints: BTreeSet<String>,
}

impl Restarts {
    pub(crate) fn push(&mut self, event: &Event) {
        let data = event.data.as_deref().filter(|_| event.kind == EventKind::Guard);
        let Some(data) = data.and_then(|text| serde_json::from_str::<Value>(text).ok()) else { return };
        // A first life that began from a checkpoint is told as `begun`.
        let starts = data["guard"] == "life" || data["guard"] == "begun";
        if starts && self.roots.len() < MOST_STARTS {
            self.roots.extend(event.process);
            let path = data["from"]["path"].as_str().filter(|path| !path.is_empty());
            self.checkpoints.extend(path.map(str::to_owned));
        }
    }

    /// A command without the checkpoint it was given, and without the option that names it: alike in every life.
    fn program<'a>(&self, argv: &'a [String]) -> Vec<&'a str> {
        let is_one = |word: &str| self.checkpoints.contains(word);
        let has_one = |word: &str| self.checkpoints.iter().any(|path| word.contains(path.as_str()));
        let is_option = |word: &str| word.starts_with('-') && !word.contains('=');
        let names_one = |at: usize| is_option(&argv[at]) && argv.get(at + 1).is_some_and(|next| is_one(next));
        let kept = argv.iter().enumerate().filter(|(at, word)| !has_one(word) && !names_one(*at));
        kept.map(|(_, word)| word.as_str()).collect()
    }
}

/// What makes two processes lives of one program.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Program<'a> {
    /// The guard started it as the job.
    Job,
    /// The same command, but for the checkpoint.
    Command(Vec<&'a str>),
}

impl LiveJudge {
    /// Programs that lived more than once, each with its lives in order.
    fn lives(&self, tasks: &BTreeSet<ProcKey>) -> Vec<Vec<ProcKey>> {
        let mut programs: BTreeMap<Program<'_>, Vec<ProcKey>> = BTreeMap::new();
        let roots = &self.restarts.roots;
        let first = self.processes.values().min_by_key(|process| process.born);
        let first = first.map(|process| process.key).filter(|_| !roots.is_empty());
        for (key, track) in &self.tracks {
            let Some(process) = self.processes.get(key).filter(|_| !tasks.contains(key)) else { continue };
            if process.execed && !process.argv.is_empty() && track.seconds.samples() >= FEWEST {
                let started = Some(*key) == first || roots.contains(key);
                let command = || Program::Command(self.restarts.program(&process.argv));
                programs.entry(if started { Program::Job } else { command() }).or_default().push(*key);
            }
        }
        let mut several: Vec<Vec<ProcKey>> = programs.into_values().filter(|lives| lives.len() > 1).collect();
        several.retain_mut(|lives| {
            lives.sort_by_key(|key| self.processes.get(key).map(|p| p.born));
            lives.windows(2).all(|pair| self.follow(pair[0], pair[1]))
        });
        several
    }

    /// Whether the second began when the first had ended.
    fn follow(&self, first: ProcKey, second: ProcKey) -> bool {
        let died = self.processes.get(&first).and_then(|process| process.died);
        let born = self.processes.get(&second).map(|process| process.born);
        died.zip(born).is_some_and(|(died, born)| died.seconds() <= born.seconds() + OVERLAP)
    }

    /// Leaves one answer of each program that lived more than once, with what all its lives say.
    pub(crate) fn join_lives(
        &self,
        each: &mut Vec<Judged>,
        role: &BTreeMap<ProcKey, Role>,
        gone: &BTreeSet<ProcKey>,
    ) {
        for lives in self.lives(gone) {
            let known: Vec<&Track> = lives.iter().filter_map(|key| self.tracks.get(key)).collect();
            let of = |judged: &Judged| lives.contains(&judged.key);
            let Some(longest) =
                each.iter().filter(|j| of(j)).max_by_key(|j| self.samples_of(j.key)).map(|j| j.key)
            else {
                continue;
            };
            each.retain(|judged| !of(judged) || judged.key == longest);
            let Some(judged) = each.iter_mut().find(|judged| judged.key == longest) else { continue };
            if judged.verdict.group == Group::TooEarly
                && let Some(mut all) = self.all_climb(&known)
            {
                all.process = Some(self.named(longest, role.get(&longest).copied().unwrap_or(Role::Unknown)));
                judged.verdict = all;
            }
            judged.grows = true;
            let line = told(&known, self.doubt);
            let verdict = &mut judged.verdict;
            verdict.evidence.insert(verdict.evidence.len().min(1), line);
        }
    }

    /// Processes of which one made others after the first were done: the workers of each epoch, one task after the other. What they
    /// took while they lived was given back when they ended, so that they grew is no leak.
    pub(crate) fn generations(&self) -> BTreeSet<ProcKey> {
        let mut kin: BTreeMap<(ProcKey, bool, &[String]), Vec<&Process>> = BTreeMap::new();
        for process in self.processes.values().filter(|process| self.tracks.contains_key(&process.key)) {
            let life = |died: Tick| died.seconds() - process.born.seconds();
            let well = process.exit == Some(Exit::Code(0));
            let task = process.died.is_none_or(|died| well && life(died) <= TASK);
            if let Some(parent) = process.parent.filter(|_| !process.execed || task) {
                kin.entry((parent, process.execed, &process.argv)).or_default().push(process);
            }
        }
        kin.into_values().flat_map(|all| self.one_after_the_other(&all)).collect()
    }

    /// Those that were followed by another one when they had ended, and those that followed one. Others that lived far longer
    /// beside them are none of these: workers that persist do not come and go because those of an evaluation do.
    fn one_after_the_other(&self, all: &[&Process]) -> Vec<ProcKey> {
        let life = |process: &Process| process.died.map_or(self.now, Tick::seconds) - process.born.seconds();
        // What still lives may come to live as long.
        let lives_on = |process: &Process| self.running && process.died.is_none();
        // How the children of somebody else ended is not always known.
        let done = |process: &Process| matches!(process.exit, None | Some(Exit::Code(0) | Exit::Unknown));
        let follows = |later: &Process, first: &Process| {
            let died = first.died.filter(|_| done(first));
            died.is_some_and(|died| died.seconds() <= later.born.seconds() + OVERLAP)
        };
        let as_long = |process: &Process, other: &Process| life(process) <= LONGER * life(other);
        let is_one = |process: &Process| {
            let followed =
                |next: &&Process| follows(next, process) && (lives_on(next) || as_long(process, next));
            let following = |before: &&Process| follows(process, before) && as_long(process, before);
            all.iter().any(|other| followed(other) || following(other))
        };
        all.iter().filter(|process| is_one(process)).map(|process| process.key).collect()
    }

    /// Leaves the answers of such processes aside; gives what is to be said of all of them.
    pub(crate) fn set_aside(&self, each: &mut [Judged], gone: &BTreeSet<ProcKey>) -> Option<String> {
        let (mut count, mut most) = (0_u32, 0.0_f64);
        for judged in each.iter_mut().filter(|judged| gone.contains(&judged.key)) {
            if judged.grows && matches!(judged.verdict.group, Group::Leak | Group::TooEarly) {
                judged.leave_aside();
                count += 1;
                most = most.max(self.tracks.get(&judged.key).map_or(0.0, Track::climbed));
            }
        }
        (count > 0).then(|| {
            let count = if count == 1 { "1 process".to_owned() } else { format!("{count} processes") };
            format!("{count} came one after the other and went, each grew by up to {} while it lived and gave that back", size(most))
        })
    }

    fn samples_of(&self, key: ProcKey) -> u64 {
        self.tracks.get(&key).map_or(0, |track| track.seconds.samples())
    }

    /// The lives as one curve with its cuts, where no pass over the data could explain that each climbs.
    fn all_climb(&self, lives: &[&Track]) -> Option<Verdict> {
        let context = self.marks.known(&self.asked);
        if context.epoch_seconds.is_some() || crate::budget::pass_steps(&context).is_some() {
            return None;
        }
        let restarts = Some(lives.len() as f64 - 1.0);
        let mut judge = Judge::new(Context { restarts, ..context }, Axis::Seconds, Metric::Anon);
        judge.set_resolution(self.doubt);
        lives.iter().for_each(|life| judge.push_all(&life.seconds));
        let (limit, limit_from) = self.limit(lives.last()?.last_need);
        judge.set_limit(limit, limit_from);
        Some(judge.verdict()).filter(|verdict| verdict.group == Group::Leak)
    }
}

/// `3 lives of this program: each grew by about 2.00 GiB, and each began again near 500 MiB`.
fn told(lives: &[&Track], doubt: f64) -> String {
    let span = |of: &dyn Fn(&Track) -> f64| {
        let (low, high) = lives
            .iter()
            .map(|life| of(life))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let near = high - low <= (0.1 * high.abs()).max(doubt);
        if near {
            format!("about {}", size(f64::midpoint(low, high)))
        } else {
            format!("{} to {}", size(low), size(high))
        }
    };
    format!(
        "{} lives of this program: each began at {} and grew by {}",
        lives.len(),
        span(&|life| life.first_need()),
        span(&|life| life.climbed().max(0.0))
    )
}
