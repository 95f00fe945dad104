//! Judges a whole run: which process, which memory, then what it is.
//!
//! The trainer's answer leads, unless another process leaks while the trainer does not. Everything else that grows
//! is a finding of its own: a leaking helper, workers that copy shared pages, processes that multiply, GPU memory.

use crate::budget::Beside;
use crate::causes::Signs;
use crate::copies::copies_pages;
use crate::crew::Subject;
use crate::gaps::Asleep;
use crate::judge::Judge;
use crate::live::{LiveJudge, feed};
use crate::phrases::{counted, duration, number, size};
use crate::roles::RoleFound;
use crate::room::{Others, part_ranks};
use crate::split::Split;
use crate::track::Track;
use crate::verdict::{Fits, Group, Kind, ProcessNamed, Verdict};
use lowtide_model::{Axis, Bytes, Context, ProcKey, Recording, Role, RunState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunVerdict {
    /// What matters most.
    pub main: Verdict,
    /// What else grows.
    pub findings: Vec<Verdict>,
    /// What each process is for.
    pub roles: Vec<RoleFound>,
}

/// Steps made, and samples taken over them, before the curve is drawn over steps instead of seconds.
const FEWEST_STEPS: f64 = 10.0;
const FEWEST_SAMPLES: u64 = 5;
/// Growth of a process beside the trainer is worth a finding from this many times the instrument's doubt on.
pub(crate) const WORTH: f64 = 16.0;
/// Evaluations after the first that must have kept something before it counts against a fill.
const FEWEST_EVALS: usize = 3;
/// Standard errors by which the mean of what evaluations keep must be above nothing.
const SURE: f64 = 3.0;
/// ... and the part of all growth it must make up.
const OF_GROWTH: f64 = 0.05;

/// Workers that are alike: so many, and what each took differs by no more than this factor.
pub(crate) const FEWEST_WORKERS: usize = 2;
pub(crate) const ALIKE: f64 = 1.5;

/// A process that ended so many seconds before the run did was there to its end.
pub(crate) const TO_THE_END: f64 = 2.0;
/// Processes that are told by themselves; the rest of those that grow are counted.
const MOST_TOLD: usize = 12;

/// Judges a recording.
pub fn judge_recording(recording: &Recording) -> RunVerdict {
    judge_recording_with(recording, Context::default())
}

/// Judges a recording together with what the user said of it.
pub fn judge_recording_with(recording: &Recording, asked: Context) -> RunVerdict {
    let mut judge = feed(recording, asked);
    if let Some(ended) = recording.meta.ended {
        judge.now = judge.now.max(ended.seconds());
    }
    let mut verdict = judge.verdict();
    if recording.meta.state == Some(RunState::CutOff) {
        let line =
            format!("the recording was cut off after {}: the job may have run on", duration(judge.now));
        verdict.main.evidence.push(line);
    }
    let name = Some(recording.meta.name.clone()).filter(|n| !n.is_empty());
    verdict.main.file.clone_from(&name);
    verdict.findings.iter_mut().for_each(|f| f.file.clone_from(&name));
    verdict
}

impl Verdict {
    /// Says what was left out, and gives back the recording's own seconds where a program reads them.
    fn tell_gaps(&mut self, asleep: &Asleep) {
        let Some((seconds, count)) = asleep.all() else { return };
        self.drawing.moved(|x| asleep.second(x));
        if let Some(at) = self.settled_at.as_mut().and_then(|settled| settled.seconds.as_mut()) {
            *at = asleep.second(*at);
        }
        self.evidence.push(format!(
            "{} s in which nobody watched and nothing moved are left out of the seconds here (gaps: {count})",
            number(seconds)
        ));
    }
}

/// The answer for one process and its place among the others.
pub(crate) struct Judged {
    pub(crate) key: ProcKey,
    pub(crate) subject: Subject,
    pub(crate) role: Role,
    /// Whether it grew by more than could be doubted.
    pub(crate) grows: bool,
    rank: f64,
    pub(crate) verdict: Verdict,
}

impl Judged {
    /// It is told only if there is nothing else.
    pub(crate) fn leave_aside(&mut self) {
        (self.grows, self.rank) = (false, 0.0);
    }
}

/// Whether an answer says more than that nothing happens: a limit that is run into is told before it has a name. One that others
/// run into is told by those.
fn tells(verdict: &Verdict) -> bool {
    let named = matches!(verdict.group, Group::Leak | Group::Bounded) || verdict.verdict == Kind::PageCache;
    let moves = verdict.group != Group::Flat || verdict.forecast.is_some();
    named || moves && verdict.outcome.is == Fits::Exceeds
}

/// What is told of the processes: the first ones, what else grows and has a name, a crew, and all that grows beside an answer that
/// nothing does. Of many only some are told by themselves.
fn told_of(each: Vec<Judged>, first: usize) -> (Vec<Verdict>, Option<String>) {
    let flat = each.first().is_none_or(|first| first.verdict.group == Group::Flat);
    let told = |judged: &Judged| {
        let matters = flat || !judged.subject.is_one();
        judged.grows && (tells(&judged.verdict) || matters && judged.verdict.group != Group::Flat)
    };
    let all = each.into_iter().enumerate();
    let mut told: Vec<Verdict> =
        all.filter(|(i, judged)| *i < first || told(judged)).map(|(_, judged)| judged.verdict).collect();
    let untold = match told.split_off(told.len().min(MOST_TOLD)).len() {
        0 => None,
        1 => Some("beside those that are told here 1 other grows too".to_owned()),
        more => Some(format!("beside those that are told here {more} others grow too")),
    };
    (told, untold)
}

/// Workers that grow as one are what the job does, where its trainer is flat or grows by less. Gives how many are told in any case:
/// the one that leads, and the one that would have.
fn lead_by_crew(each: &mut [Judged]) -> usize {
    let grown = |judged: &Judged| judged.verdict.floor.end_bytes - judged.verdict.floor.start_bytes;
    let Some(first) = each.first().filter(|first| first.verdict.group != Group::Leak) else { return 1 };
    let flat = first.verdict.group == Group::Flat;
    let larger = |judged: &Judged| {
        let grows = judged.grows && judged.verdict.group != Group::Flat;
        grows && !judged.subject.is_one() && (flat || grown(judged) > grown(first))
    };
    let Some(at) = each.iter().position(larger) else { return 1 };
    each[..=at].rotate_right(1);
    2
}

/// Leaks first, by what they took; then the trainer; then the rest by size.
fn rank(verdict: &Verdict, track: &Track, grows: bool, role: Role) -> f64 {
    let leak = verdict.group == Group::Leak && grows;
    let class = if leak { 2.0 } else { f64::from(u8::from(role == Role::Trainer)) };
    let weight = if leak { track.grown() } else { track.footprint.peak.as_f64() };
    class * 1e18 + weight
}

impl LiveJudge {
    /// The answer as of now.
    pub fn verdict(&self) -> RunVerdict {
        let roles = self.roles();
        let role: BTreeMap<ProcKey, Role> = roles.iter().map(|r| (r.process, r.role)).collect();
        let of = |key: &ProcKey| role.get(key).copied().unwrap_or(Role::Unknown);
        let gone = self.generations();
        let crews = self.crews(&role, &gone);
        let judge = |subject: &Subject, others: Others| {
            let split = |context: &Context| self.split(subject, (&crews, &role), context);
            self.judged(subject, of(&subject.key), split, others)
        };
        let subjects = self.subjects(&crews);
        let mut each: Vec<Judged> =
            subjects.iter().filter_map(|subject| judge(subject, Others::default())).collect();
        part_ranks(&mut each, judge);
        self.share_room(&mut each, judge);
        let came_and_went = self.set_aside(&mut each, &gone);
        let buffers = self.buffers(&each, &role);
        self.join_lives(&mut each, &role, &gone);
        each.sort_by(|a, b| b.rank.total_cmp(&a.rank));
        let first = lead_by_crew(&mut each);
        let (mut verdicts, untold) = told_of(each, first);
        let leaks = verdicts.iter().any(|v| v.group == Group::Leak);
        let mut extra: Vec<Verdict> = self
            .copies(&role)
            .into_iter()
            .chain(self.allocator_verdicts(&role))
            .chain(self.gpu_verdicts(&role))
            .collect();
        extra.extend(self.multiplying(&role, leaks));
        let quiet = verdicts.first().is_none_or(|v| v.group == Group::Flat);
        let leads = extra
            .iter()
            .position(|v| (v.group == Group::Leak && !leaks) || (quiet && v.group != Group::Flat));
        if let Some(at) = leads {
            let main = extra.remove(at);
            verdicts.insert(0, main);
        }
        // What was to be told first stays told, whatever came before it.
        let processes =
            verdicts.into_iter().enumerate().filter(|(i, v)| *i == 0 || v.group != Group::Flat || tells(v));
        let mut all = processes.map(|(_, v)| v).chain(extra.into_iter().filter(tells));
        let mut main = all.next().unwrap_or_else(|| {
            let mut nothing = Judge::new(Context::default(), Axis::Seconds, lowtide_model::Metric::Rss);
            if !self.running {
                nothing.set_ended();
            }
            nothing.verdict()
        });
        main.evidence.extend(came_and_went);
        main.evidence.extend(untold);
        if let Some(death) = self.death() {
            main.tell_death(&death);
        }
        main.tell_causes(&Signs { buffers, ..self.signs_of_all(&role) });
        if let Some((said, told)) = self.marks.contradicted(&self.asked) {
            main.evidence.push(format!(
                "what was said makes a pass of {}, the marks of the job make one of {}; what was said is taken",
                counted(said, "step"),
                counted(told, "step")
            ));
        }
        RunVerdict { main, findings: all.collect(), roles }
    }

    /// What the run as a whole shows beside its curves.
    fn signs_of_all(&self, role: &BTreeMap<ProcKey, Role>) -> Signs {
        let dev_shm = self.host.and_then(|host| host.dev_shm_used.zip(host.dev_shm_total));
        let lives = |key: &ProcKey| self.processes.get(key).is_none_or(|p| p.died.is_none());
        let living = || self.tracks.iter().filter(|(key, _)| lives(key));
        let compilers = living().filter(|(key, _)| role.get(key) == Some(&Role::CompileWorker));
        let (count, held) = compilers.fold((0, 0.0), |(n, held), (_, track)| (n + 1, held + track.last_need));
        Signs {
            worth: WORTH * self.doubt,
            dev_shm: dev_shm.map(|(used, all)| (used.as_f64(), all.as_f64())),
            bus_errors: self.bus_errors().count(),
            compilers: (count, held, living().map(|(_, track)| track.last_need).sum()),
            ..Signs::default()
        }
    }

    /// The curve over steps, where there are enough of them, or over seconds, with all places that are known on it.
    fn by_steps_or_seconds(&self, track: &Track, by_steps: bool) -> (Judge, Context, Asleep) {
        let mut judge = if by_steps { track.steps.clone() } else { track.seconds.clone() };
        let mut context = self.marks.known(&self.asked);
        judge.set_resolution(self.doubt);
        let asleep = if by_steps { Asleep::default() } else { judge.skip(&self.gaps) };
        let watched = |seconds: &[f64]| seconds.iter().map(|x| asleep.watched(*x)).collect();
        let places = |seconds: &[f64]| if by_steps { self.marks.steps_at(seconds) } else { watched(seconds) };
        self.marks.place_in(&mut context, places);
        if !by_steps {
            context.step_x = watched(&self.marks.steps.seconds);
        }
        (judge, context, asleep)
    }

    fn judged(
        &self,
        subject: &Subject,
        role: Role,
        split: impl Fn(&Context) -> Split,
        others: Others,
    ) -> Option<Judged> {
        let key = subject.key;
        let died = self.processes.get(&key).and_then(|p| p.died).is_some();
        let track = self.track_of(subject)?;
        let by_steps = track.steps.samples() >= FEWEST_SAMPLES && self.marks.steps_made() >= FEWEST_STEPS;
        let (mut judge, mut context, asleep) = self.by_steps_or_seconds(&track, by_steps);
        let (limit, beside) = self.ceiling(subject, track.last_need);
        (context.limit, context.limit_from) = limit;
        judge.set_split(split(&context));
        judge.set_context(context);
        let beside =
            Beside { pace: others.pace, ahead: others.ahead, unseen: self.unseen(subject, &track), ..beside };
        judge.set_beside(beside);
        judge.set_pace(if by_steps { self.marks.pace() } else { None });
        judge.set_running(self.running);
        if died && !self.running {
            judge.set_ended();
        }
        judge.set_drawn(self.drawn);
        judge.set_outside_data(self.kept_outside(&track), self.marks.largest_example);
        let death = self.death().filter(|death| role == Role::Trainer || death.is_of(key));
        judge.set_death(death.clone());
        let mut verdict = judge.verdict();
        verdict.process = Some(ProcessNamed { with: subject.others(), ..self.named(key, role) });
        verdict.evidence.extend(beside.words(track.last_need));
        verdict.tell_gaps(&asleep);
        if let Some(step) = self.marks.step {
            let marks = counted(self.marks.count as f64, "mark");
            verdict.why.push(format!("marks: {marks} read, the newest step is {}", number(step)));
        }
        if let Some(death) = death {
            verdict.tell_death(&death);
        }
        let grows = track.grown() > WORTH * self.doubt;
        let tensors = self.allocators.tensors(subject, role);
        verdict.tell_causes(&Signs {
            role: Some(role),
            worth: WORTH * self.doubt,
            grown: track.grown(),
            locked_grown: track.locked_grown(),
            threads: track.threads,
            per_step: by_steps.then_some(verdict.floor.bytes_per_step),
            peaks: track.peaks,
            per_shape: track.per_shape(),
            rollouts: self.rollouts(),
            tensors,
            count: tensors.count.map(|count| ("tensors", count)),
            ..Signs::default()
        });
        let began = self.marks.began();
        verdict.tell_scans(subject.members.iter().find_map(|key| self.scans.grown(*key, began)));
        let rank = rank(&verdict, &track, grows, role);
        Some(Judged { key, subject: subject.clone(), role, grows, rank, verdict })
    }

    /// By how much the highest peak of a process, as the kernel told it, is above all that was sampled.
    fn unseen(&self, subject: &Subject, track: &Track) -> f64 {
        let told = self.processes.get(&subject.key).and_then(|process| process.peak_rss);
        let peak = told.filter(|_| subject.is_one()).unwrap_or_default();
        peak.saturating_sub(track.footprint.peak).as_f64()
    }

    /// What evaluations keep beyond the first, when most of them keep something: no new training example was touched.
    fn kept_outside(&self, track: &Track) -> Option<f64> {
        let keeps = track.kept_by_evals();
        let n = keeps.len() as f64;
        let mean = keeps.iter().sum::<f64>() / n;
        let error = (keeps.iter().map(|k| (k - mean).powi(2)).sum::<f64>() / n / (n - 1.0)).sqrt();
        let clear = mean > (SURE * error).max(self.doubt) && mean * n > OF_GROWTH * track.grown();
        (keeps.len() >= FEWEST_EVALS && clear).then_some(mean)
    }

    pub(crate) fn named(&self, key: ProcKey, role: Role) -> ProcessNamed {
        let argv = self.processes.get(&key).map(|p| p.argv.clone()).unwrap_or_default();
        ProcessNamed { key, role, argv, with: Vec::new() }
    }

    fn gpu_verdicts(&self, role: &BTreeMap<ProcKey, Role>) -> Vec<Verdict> {
        let split = |gpu: u32| self.gpus.keys().any(|k| k.0 == gpu && k.1.is_some());
        let tell = self.tells_of_gpu(role);
        let mut out = Vec::new();
        for ((gpu, process), levels) in &self.gpus {
            // What the job's own allocator tells says more than the driver's sum.
            let told = process.is_some_and(|key| tell.contains(&key));
            if (process.is_none() && split(*gpu)) || told {
                continue;
            }
            let room = self.gpu_room(*gpu, levels.newest().unwrap_or(0.0));
            let limit = room.map(|room| (room, format!("the memory of GPU {gpu}")));
            let mut verdict = self.asked_of(&self.up_to_now(levels, *process), limit).verdict();
            if verdict.group == Group::Flat {
                continue;
            }
            verdict.headline = format!("GPU {gpu}: {}", verdict.headline);
            verdict.process =
                process.map(|key| self.named(key, role.get(&key).copied().unwrap_or(Role::Unknown)));
            out.push(verdict);
        }
        out
    }

    /// What a process that holds so much of a GPU could hold there.
    fn gpu_room(&self, gpu: u32, held: f64) -> Option<Bytes> {
        let (total, used) = self.gpu_sizes.get(&gpu)?;
        // What was used is told anew when a process ended: then its part is no longer in it.
        Some(Bytes::from_f64((held + (total - used).max(0.0)).min(*total)))
    }

    /// The same for a process by itself, when it uses one GPU.
    pub(crate) fn gpu_limit(&self, key: ProcKey) -> Option<Bytes> {
        let mut own = self.gpus.iter().filter(|((_, process), _)| *process == Some(key));
        let (((gpu, _), levels), None) = (own.next()?, own.next()) else { return None };
        self.gpu_room(*gpu, levels.newest()?)
    }

    /// What makes rollouts here, and how far shared memory moved since the start.
    fn rollouts(&self) -> Option<(&'static str, f64)> {
        let used = |host: &lowtide_model::HostRow| host.dev_shm_used.map(Bytes::as_f64);
        let moved = self.host_first.as_ref().and_then(used).zip(self.host.as_ref().and_then(used));
        let engine = self.processes.values().find_map(crate::roles::rollout_engine)?;
        Some((engine, moved.map_or(0.0, |(first, last)| (last - first).abs())))
    }

    /// Loader workers that each took about as much and stopped: their buffers are full.
    fn buffers(&self, each: &[Judged], role: &BTreeMap<ProcKey, Role>) -> Option<(usize, f64)> {
        let worker = |judged: &&Judged| role.get(&judged.key) == Some(&Role::LoaderWorker);
        let tracks: Vec<&Track> = each
            .iter()
            .filter(worker)
            .filter(|judged| judged.grows && judged.verdict.group == Group::Bounded)
            // What follows the examples is no buffer.
            .filter(|judged| judged.verdict.bytes_per_example.is_none())
            .flat_map(|judged| &judged.subject.members)
            .filter_map(|key| self.tracks.get(key))
            .filter(|track| !copies_pages(track))
            .collect();
        let grown: Vec<f64> = tracks.iter().map(|track| track.grown()).collect();
        let (least, most) = grown.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
        let alike = grown.len() >= FEWEST_WORKERS && most <= ALIKE * least;
        alike.then(|| (grown.len(), grown.iter().sum::<f64>() / grown.len() as f64))
    }

    /// More and more processes, each of them flat.
    fn multiplying(&self, role: &BTreeMap<ProcKey, Role>, leaks: bool) -> Option<Verdict> {
        let counted = self.alive.verdict();
        let (before, after) = (counted.floor.start_bytes.round(), counted.floor.end_bytes.round());
        let more = after - before;
        if leaks || counted.group != Group::Leak || more < 3.0 {
            return None;
        }
        let mut tree = self.tree.clone();
        tree.set_resolution(self.doubt);
        let (limit, limit_from) = self.limit(self.tracks.values().map(|t| t.last_need).sum());
        tree.set_context(Context { limit, limit_from, ..self.asked.clone() });
        let mut verdict = tree.verdict_as(Kind::Leak);
        let grown = verdict.floor.end_bytes - verdict.floor.start_bytes;
        verdict.headline = format!(
            "leak by processes that multiply: {} live now, {} at the start, each of them flat; together they took {} more",
            number(after),
            number(before),
            size(grown)
        );
        verdict.evidence.insert(
            0,
            format!(
                "the number of living processes rose from {} to {} and still rises",
                number(before),
                number(after)
            ),
        );
        verdict.advice = vec!["find what starts processes and never ends them: a loader made anew for each evaluation or epoch, a pool that is not closed".to_owned()];
        verdict.confidence = counted.confidence;
        let root = self.processes.values().find(|p| role.get(&p.key) == Some(&Role::Trainer)).map(|p| p.key);
        verdict.process = root.map(|key| self.named(key, Role::Trainer));
        Some(verdict)
    }
}
