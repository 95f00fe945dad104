//! Plays a made-up job, look by look, against the reckoning: what it takes, what the kernel would tell of it, how it ends.
//!
//! A job that is asked ends its step and saves; it dies when it passes its limit. Looks come when the guard asks for them,
//! and late, as on a busy machine.

use lowtide_model::{Mark, MarkKind, MarkPhase, Tick};
use lowtide_verdict::{Call, Guard, Look, QUICKEST_LOOK, SLOWEST_LOOK};

pub(crate) const LIMIT: f64 = 32e9;
/// Looks inside a step at which memory is reckoned, beside those of the guard.
const FINE: usize = 16;

/// Numbers that look random and are the same every time.
#[derive(Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.roll()
    }

    /// The same chance for 0.02 to 0.2 as for 0.2 to 2.
    pub(crate) fn scale(&mut self, low: f64, high: f64) -> f64 {
        (self.between(low.ln(), high.ln())).exp()
    }

    pub(crate) fn happens(&mut self, chance: f64) -> bool {
        self.roll() < chance
    }

    /// One of so many.
    pub(crate) fn one_of(&mut self, count: usize) -> usize {
        ((self.roll() * count as f64) as usize).min(count - 1)
    }

    /// About as far from 0 as the standard normal.
    pub(crate) fn bell(&mut self) -> f64 {
        (0..12).map(|_| self.roll()).sum::<f64>() - 6.0
    }
}

/// A job; memory as a part of the limit.
pub(crate) struct Job {
    pub(crate) level: Box<dyn Fn(usize) -> f64>,
    /// What others take under the same limit, by the clock.
    pub(crate) strangers: Box<dyn Fn(f64) -> f64>,
    pub(crate) steps: usize,
    pub(crate) step_seconds: f64,
    /// How long each step takes, where that is not left to chance.
    pub(crate) paces: Option<Vec<f64>>,
    /// Taken and given back within each step.
    pub(crate) swing: f64,
    pub(crate) eval: Option<Phase>,
    /// Each evaluation takes so much more than the one before, so many times.
    pub(crate) eval_grows: (f64, usize),
    pub(crate) save: Option<Phase>,
    /// What a save takes, whether it saves by itself or not.
    pub(crate) save_takes: f64,
    pub(crate) save_seconds: f64,
    pub(crate) manner: Manner,
}

/// What is not the same from step to step and from look to look.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// What a look reads is off by up to this part.
    pub(crate) jitter: f64,
    /// A step's time is off by so much either way ...
    pub(crate) uneven: f64,
    /// ... and every so many steps one takes three times as long.
    pub(crate) slow_every: Option<usize>,
    /// One look in so many comes late by up to so many seconds.
    pub(crate) stalls: Option<(f64, f64)>,
    pub(crate) keeps: Keeps,
}

/// When a step takes what it keeps.
#[derive(Clone, Copy)]
pub(crate) enum Keeps {
    First,
    Throughout,
    Last,
}

impl Default for Manner {
    fn default() -> Self {
        Self { jitter: 0.0, uneven: 0.1, slow_every: None, stalls: None, keeps: Keeps::First }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Phase {
    pub(crate) every: usize,
    pub(crate) takes: f64,
    pub(crate) seconds: f64,
}

impl Job {
    pub(crate) fn new(steps: usize, step_seconds: f64, level: impl Fn(usize) -> f64 + 'static) -> Self {
        Self {
            level: Box::new(level),
            strangers: Box::new(|_| 0.0),
            steps,
            step_seconds,
            paces: None,
            swing: 0.0,
            eval: None,
            eval_grows: (0.0, 0),
            save: None,
            save_takes: 0.0,
            save_seconds: 1.0,
            manner: Manner::default(),
        }
    }

    pub(crate) fn leak(start: f64, per_step: f64, step_seconds: f64) -> Self {
        Self::new(usize::MAX, step_seconds, move |step| start + per_step * step as f64)
    }

    pub(crate) fn saves(self, every: usize, takes: f64) -> Self {
        let save = Some(Phase { every, takes, seconds: self.save_seconds });
        Self { save, save_takes: takes, ..self }
    }
}

/// How a job ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Played {
    /// The step after which it was asked, and what was taken then.
    pub(crate) asked: Option<(usize, f64)>,
    /// Whether the call said that it was too late.
    pub(crate) lost: bool,
    pub(crate) died: bool,
    /// The highest part of the limit.
    pub(crate) highest: f64,
    pub(crate) looks: usize,
    /// The step at which an evaluation was first said not to fit.
    pub(crate) told_evaluation: Option<usize>,
}

pub(crate) struct Stage<'a> {
    job: &'a Job,
    pub(crate) guard: Guard,
    dice: Dice,
    pub(crate) now: f64,
    next_look: f64,
    peak: f64,
    peak_told: f64,
    evaluations: usize,
    /// The newest step that has ended and when, until it is heard of.
    ended: Option<(usize, f64)>,
    played: Played,
    pub(crate) step: usize,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(job: &'a Job, guard: Guard, seed: u64) -> Self {
        Self {
            job,
            guard,
            dice: Dice(seed),
            now: 0.0,
            next_look: 0.0,
            peak: 0.0,
            peak_told: 0.0,
            evaluations: 0,
            ended: None,
            played: Played::default(),
            step: 0,
        }
    }

    fn mark(&mut self, kind: MarkKind, phase: MarkPhase) {
        self.hear_step();
        let (tick, number) = (Tick::from_seconds(self.now), self.step as f64);
        self.guard.mark(&Mark { tick, process: None, kind, phase, number, rank: None, extra: None });
    }

    /// A job tells of its newest step alone, and it is heard of with the next look.
    pub(crate) fn hear_step(&mut self) {
        let Some((step, seconds)) = self.ended.take() else { return };
        let (tick, number) = (Tick::from_seconds(seconds), step as f64);
        let (kind, phase) = (MarkKind::Step, MarkPhase::Point);
        self.guard.mark(&Mark { tick, process: None, kind, phase, number, rank: None, extra: None });
    }

    /// So much is taken over so long, as a course from 0 to 1.
    fn pass(&mut self, seconds: f64, used: &dyn Fn(f64) -> f64) {
        let (begin, job) = (self.now, self.job);
        let used = |at: f64| used(at) + (job.strangers)(begin + at * seconds);
        let mut times: Vec<f64> = (1..=FINE).map(|i| i as f64 / FINE as f64).collect();
        while self.next_look < begin + seconds {
            let at = ((self.next_look - begin) / seconds).max(0.0);
            let passed =
                times.iter().take_while(|time| **time <= at).map(|time| used(*time)).fold(0.0, f64::max);
            self.peak = self.peak.max(passed);
            times.retain(|time| *time > at);
            let level = used(at) * (1.0 + job.manner.jitter * (self.dice.roll() - 0.5));
            self.look(begin + at * seconds, level);
        }
        let fine = (0..=FINE).map(|i| used(i as f64 / FINE as f64)).fold(0.0, f64::max);
        self.played.highest = self.played.highest.max(fine);
        self.peak = times.iter().map(|time| used(*time)).fold(self.peak, f64::max);
        self.played.died |= fine > 1.0;
        self.now = begin + seconds;
    }

    fn look(&mut self, seconds: f64, level: f64) {
        self.hear_step();
        let used = level * LIMIT;
        // The kernel keeps the highest of all time: it tells of a peak between two looks when there was none higher.
        let peak = self.peak.max(level);
        let high = if peak > self.peak_told { peak * LIMIT } else { used };
        self.peak_told = peak;
        self.guard.look(Look { seconds, used, high, limit: LIMIT });
        self.played.looks += 1;
        let pause = self.guard.next_look().unwrap_or(SLOWEST_LOOK).clamp(QUICKEST_LOOK, SLOWEST_LOOK);
        self.next_look = seconds + pause + self.late();
        // A job that has made no step yet gets ready: nobody asks it, as in `run`.
        if self.played.asked.is_none() && !self.played.died && self.step > 0 {
            match self.guard.call() {
                Call::Hold => {}
                call @ (Call::Ask(_) | Call::Lost(_)) => {
                    self.played.lost = matches!(call, Call::Lost(_));
                    self.played.asked = Some((self.step, level));
                }
            }
            if self.guard.evaluation_exceeds().is_some() {
                self.played.told_evaluation.get_or_insert(self.step);
            }
        }
    }

    /// By up to a few milliseconds, as on a busy machine; now and then by many.
    fn late(&mut self) -> f64 {
        let usual = self.dice.between(0.0, 0.004);
        let Some((one_in, most)) = self.job.manner.stalls else { return usual };
        if self.dice.happens(1.0 / one_in) { self.dice.between(usual, most) } else { usual }
    }

    fn step_seconds(&mut self) -> f64 {
        if let Some(seconds) = self.job.paces.as_ref().and_then(|paces| paces.get(self.step)) {
            return *seconds;
        }
        let Manner { uneven, slow_every, .. } = self.job.manner;
        let slow = slow_every.is_some_and(|every| (self.step + 1).is_multiple_of(every));
        let usual = if uneven > 0.1 {
            // Steps of texts of all lengths: most are near the mean, some are far from it.
            (uneven * self.dice.bell()).clamp(-1.0, 1.0).exp()
        } else {
            self.dice.between(1.0 - uneven, 1.0 + uneven)
        };
        self.job.step_seconds * usual * if slow { 3.0 } else { 1.0 }
    }

    pub(crate) fn one_step(&mut self) {
        let (before, after) = ((self.job.level)(self.step), (self.job.level)(self.step + 1));
        let (swing, keeps) = (self.job.swing, self.job.manner.keeps);
        // What it gives back is highest in the middle.
        let used = move |at: f64| {
            let kept = match keeps {
                Keeps::First => (at * 2.0).min(1.0),
                Keeps::Throughout => at,
                Keeps::Last => (at * 5.0 - 4.0).max(0.0),
            };
            before + (after - before) * kept + swing * (1.0 - (at - 0.5).abs() * 2.0)
        };
        let seconds = self.step_seconds();
        self.pass(seconds, &used);
        self.step += 1;
        self.ended = Some((self.step, self.now));
    }

    pub(crate) fn phase(&mut self, kind: MarkKind, takes: f64, seconds: f64) {
        let level = (self.job.level)(self.step);
        self.mark(kind, MarkPhase::Start);
        self.pass(seconds, &|at| level + takes * if at < 0.9 { (at * 4.0).min(1.0) } else { 0.0 });
        self.mark(kind, MarkPhase::End);
    }

    pub(crate) fn play(mut self) -> Played {
        while self.step < self.job.steps && !self.played.died {
            self.one_step();
            let due = |phase: Option<Phase>| phase.filter(|phase| self.step.is_multiple_of(phase.every));
            let (eval, save) = (due(self.job.eval), due(self.job.save));
            if let Some(eval) = eval {
                let (more, times) = self.job.eval_grows;
                let takes = eval.takes + more * self.evaluations.min(times) as f64;
                self.evaluations += 1;
                self.phase(MarkKind::Eval, takes, eval.seconds);
            }
            if self.played.asked.is_some() {
                self.phase(MarkKind::Save, self.job.save_takes, self.job.save_seconds);
                break;
            }
            if let Some(save) = save {
                self.phase(MarkKind::Save, save.takes, save.seconds);
            }
        }
        self.played
    }
}

pub(crate) fn play(job: &Job, seed: u64) -> Played {
    Stage::new(job, Guard::default(), seed).play()
}
