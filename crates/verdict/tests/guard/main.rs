//! When a job is asked to save: never one that fits, always one that does not, and not a step too late.
//!
//! Jobs are played step by step against the reckoning, with the ticks it asks for itself: what each step adds, what it
//! takes for a moment, evaluations, saves. A job that is asked ends its step and saves; it dies when it passes its limit.

use lowtide_model::{Mark, MarkKind, MarkPhase, Tick};
use lowtide_verdict::{Call, Guard, Look, QUICKEST_LOOK, SLOWEST_LOOK};

const LIMIT: f64 = 32e9;
/// Looks inside a step at which memory is reckoned, beside those of the guard.
const FINE: usize = 16;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.roll()
    }

    /// The same chance for 0.02 to 0.2 as for 0.2 to 2.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        (self.between(low.ln(), high.ln())).exp()
    }
}

/// A job; memory as a part of the limit.
struct Job {
    level: Box<dyn Fn(usize) -> f64>,
    steps: usize,
    step_seconds: f64,
    /// Taken and given back within each step.
    swing: f64,
    jitter: f64,
    eval: Option<Phase>,
    save: Option<Phase>,
    /// What a save takes, whether it saves by itself or not.
    save_takes: f64,
    save_seconds: f64,
}

#[derive(Clone, Copy)]
struct Phase {
    every: usize,
    takes: f64,
    seconds: f64,
}

impl Job {
    fn new(steps: usize, step_seconds: f64, level: impl Fn(usize) -> f64 + 'static) -> Self {
        let (eval, save) = (None, None);
        let level = Box::new(level);
        Self {
            level,
            steps,
            step_seconds,
            swing: 0.0,
            jitter: 0.0,
            eval,
            save,
            save_takes: 0.0,
            save_seconds: 1.0,
        }
    }

    fn leak(start: f64, per_step: f64, step_seconds: f64) -> Self {
        Self::new(usize::MAX, step_seconds, move |step| start + per_step * step as f64)
    }

    fn saves(self, every: usize, takes: f64) -> Self {
        let save = Some(Phase { every, takes, seconds: self.save_seconds });
        Self { save, save_takes: takes, ..self }
    }
}

/// How a job ended.
#[derive(Clone, Debug, Default, PartialEq)]
struct Played {
    /// The step after which it was asked, and what was taken then.
    asked: Option<(usize, f64)>,
    /// Whether the call said that it was too late.
    lost: bool,
    died: bool,
    /// The highest part of the limit.
    highest: f64,
    /// Looks between the first sight of trouble and the request.
    looks: usize,
    told_evaluation: Option<usize>,
}

struct Stage<'a> {
    job: &'a Job,
    guard: Guard,
    dice: Dice,
    now: f64,
    next_look: f64,
    peak: f64,
    peak_told: f64,
    played: Played,
    step: usize,
}

impl<'a> Stage<'a> {
    fn new(job: &'a Job, guard: Guard, seed: u64) -> Self {
        let (now, next_look, peak, peak_told) = (0.0, 0.0, 0.0, 0.0);
        Self {
            job,
            guard,
            dice: Dice(seed),
            now,
            next_look,
            peak,
            peak_told,
            played: Played::default(),
            step: 0,
        }
    }

    fn mark(&mut self, kind: MarkKind, phase: MarkPhase) {
        let (tick, number) = (Tick::from_seconds(self.now), self.step as f64);
        self.guard.mark(&Mark { tick, process: None, kind, phase, number, rank: None, extra: None });
    }

    /// So much is taken over so long, as a course from 0 to 1.
    fn pass(&mut self, seconds: f64, used: &dyn Fn(f64) -> f64) {
        let begin = self.now;
        let mut times: Vec<f64> = (1..=FINE).map(|i| i as f64 / FINE as f64).collect();
        while self.next_look < begin + seconds {
            let at = ((self.next_look - begin) / seconds).max(0.0);
            let passed =
                times.iter().take_while(|time| **time <= at).map(|time| used(*time)).fold(0.0, f64::max);
            self.peak = self.peak.max(passed);
            times.retain(|time| *time > at);
            let level = used(at) * (1.0 + self.job.jitter * (self.dice.roll() - 0.5));
            self.look(begin + at * seconds, level);
        }
        let fine = (0..=FINE).map(|i| used(i as f64 / FINE as f64)).fold(0.0, f64::max);
        self.played.highest = self.played.highest.max(fine);
        self.peak = times.iter().map(|time| used(*time)).fold(self.peak, f64::max);
        self.played.died |= fine > 1.0;
        self.now = begin + seconds;
    }

    fn look(&mut self, seconds: f64, level: f64) {
        let used = level * LIMIT;
        // The kernel keeps the highest of all time: it tells of a peak between two looks when there was none higher.
        let peak = self.peak.max(level);
        let high = if peak > self.peak_told { peak * LIMIT } else { used };
        self.peak_told = peak;
        self.guard.look(Look { seconds, used, high, limit: LIMIT });
        self.played.looks += 1;
        let pause = self.guard.next_look().unwrap_or(SLOWEST_LOOK).clamp(QUICKEST_LOOK, SLOWEST_LOOK);
        // Late by up to a few milliseconds, as on a busy machine.
        self.next_look = seconds + pause + self.dice.between(0.0, 0.004);
        if self.played.asked.is_none() && !self.played.died {
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

    fn one_step(&mut self) {
        let (before, after) = ((self.job.level)(self.step), (self.job.level)(self.step + 1));
        let swing = self.job.swing;
        // What a step keeps it takes in its first half; what it gives back is highest in the middle.
        let used = move |at: f64| {
            before + (after - before) * (at * 2.0).min(1.0) + swing * (1.0 - (at - 0.5).abs() * 2.0)
        };
        let seconds = self.job.step_seconds * self.dice.between(0.9, 1.1);
        self.pass(seconds, &used);
        self.step += 1;
        self.mark(MarkKind::Step, MarkPhase::Point);
    }

    fn phase(&mut self, kind: MarkKind, takes: f64, seconds: f64) {
        let level = (self.job.level)(self.step);
        self.mark(kind, MarkPhase::Start);
        self.pass(seconds, &|at| level + takes * if at < 0.9 { (at * 4.0).min(1.0) } else { 0.0 });
        self.mark(kind, MarkPhase::End);
    }

    fn play(mut self) -> Played {
        while self.step < self.job.steps && !self.played.died {
            self.one_step();
            let due = |phase: Option<Phase>| phase.filter(|phase| self.step.is_multiple_of(phase.every));
            let (eval, save) = (due(self.job.eval), due(self.job.save));
            if let Some(eval) = eval {
                self.phase(MarkKind::Eval, eval.takes, eval.seconds);
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

fn play(job: &Job, seed: u64) -> Played {
    Stage::new(job, Guard::default(), seed).play()
}

/// A job that fits, up to 97 % of its limit: eight kinds.
fn harmless(seed: u64) -> (&'static str, Job) {
    let mut dice = Dice(seed);
    let step_seconds = dice.scale(0.02, 4.0);
    let base = dice.between(0.05, 0.4);
    let swing = dice.between(0.0, 0.04);
    let top = dice.between(0.5, 0.97) - swing;
    // Nothing that is loaded or read takes less than some seconds or some dozens of steps.
    let long = dice.scale(1.0, 8.0) * (10.0 / step_seconds).max(50.0);
    let quick = dice.scale(1.0, 8.0) * (4.0 / step_seconds).max(12.0);
    let steps = 600.max(2 * long as usize).min(4000);
    let gap = dice.between(10.0, 60.0) as usize;
    let tread = (gap as f64).max(3.0 / step_seconds) as usize;
    let wide = dice.between(1.0, 6.0) as usize;
    let (name, mut job) = match seed % 8 {
        0 => (
            "warm-up",
            Job::new(steps, step_seconds, move |k| base + (top - base) * (1.0 - (-(k as f64) / quick).exp())),
        ),
        1 => (
            "cache fill",
            Job::new(steps, step_seconds, move |k| base + (top - base) * (k as f64 / long).min(1.0)),
        ),
        2 => ("evaluations", Job::new(600, step_seconds, move |_| base)),
        3 => {
            ("spikes", Job::new(600, step_seconds, move |k| if k % (gap + wide) >= gap { top } else { base }))
        }
        4 => ("steady", Job::new(600, step_seconds, move |_| top)),
        5 => {
            let top = top.min(0.85);
            let tooth = 25 + gap;
            (
                "saw-tooth",
                Job::new(600, step_seconds, move |k| base + (top - base) * (k % tooth) as f64 / tooth as f64),
            )
        }
        6 => (
            "stairs",
            Job::new(600, step_seconds, move |k| base + (top - base) * ((k / tread).min(4) as f64 / 4.0)),
        ),
        _ => (
            "fill to 97 %",
            Job::new(steps, step_seconds, move |k| base + (0.97 - swing - base) * (k as f64 / long).min(1.0)),
        ),
    };
    if seed % 8 == 2 {
        job.eval = Some(Phase { every: gap, takes: top - base, seconds: dice.between(0.5, 5.0) });
    }
    if seed.is_multiple_of(3) {
        let takes = (0.99 - 0.97_f64).min(0.01);
        job = job.saves(50, takes);
    }
    job.swing = swing;
    job.jitter = dice.between(0.0, 0.004);
    (name, job)
}

#[test]
fn a_job_that_fits_is_never_asked_in_two_hundred_variants() {
    let mut wrong = Vec::new();
    for seed in 0..200 {
        let (name, job) = harmless(seed);
        let played = play(&job, seed + 1000);
        assert!(!played.died, "{name} {seed} was meant to fit: {played:?}");
        if played.asked.is_some() {
            wrong.push(format!("{name} {seed}, steps of {:.2} s: {played:?}", job.step_seconds));
        }
    }
    assert!(wrong.is_empty(), "{} of 200:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_job_that_leaks_is_asked_in_time_and_its_save_fits_in_all_but_one_of_a_hundred() {
    let mut wrong = Vec::new();
    for seed in 0..200 {
        let mut dice = Dice(seed + 7);
        let step_seconds = dice.scale(0.1, 4.0);
        let per_step = dice.scale(0.0005, 0.02) * (step_seconds / 0.2).min(1.0);
        let takes = dice.between(0.0, 0.3);
        let start = dice.between(0.1, 0.4);
        let every = (2.0 / step_seconds).max(10.0) as usize;
        let mut job = Job::leak(start, per_step, step_seconds).saves(every, takes);
        job.swing = dice.between(0.0, 0.1);
        job.jitter = dice.between(0.0, 0.002);
        let played = play(&job, seed);
        // Steps that were still possible when it was asked.
        let peak = takes.max(job.swing);
        let early = played.asked.map(|(_, level)| (1.0 - level - peak) / per_step);
        let most = 4.0 + 0.1 / step_seconds + (job.swing + 0.01) / per_step;
        if played.died || early.is_none_or(|early| early > most) {
            let (swing, jitter) = (job.swing, job.jitter);
            wrong.push(format!(
                "{seed}: steps of {step_seconds:.2} s add {per_step:.5}, save {takes:.3}, swing {swing:.3}, jitter \
                 {jitter:.4}: early by {early:.1?} of {most:.1}: {played:?}"
            ));
        }
    }
    // Looks that come by chance miss a step now and then: one in a hundred is a step late.
    assert!(wrong.len() <= 2, "{} of 200:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_percentage_would_do_a_save_of_thirty_per_cent_and_a_fill_to_ninety_seven() {
    let needy = Job::leak(0.2, 0.005, 0.5).saves(20, 0.3);
    let played = play(&needy, 1);
    assert!(!played.died && !played.lost, "{played:?}");
    let (_, asked_at) = played.asked.unwrap();
    assert!((0.6..0.7).contains(&asked_at), "asked while 30 % is left for the save: {played:?}");
    let full = Job::new(900, 0.5, |k| 0.2 + 0.77 * (k as f64 / 300.0).min(1.0)).saves(50, 0.01);
    let played = play(&full, 1);
    assert_eq!(
        played.asked, None,
        "left alone at {}: any guard at {asked_at} or above would fail one of the two",
        played.highest
    );
    assert!(played.highest > 0.965);
}

#[test]
fn an_evaluation_that_will_not_fit_is_known_from_the_last_and_asked_for_in_time() {
    let mut job = Job::leak(0.3, 0.002, 0.3);
    job.eval = Some(Phase { every: 40, takes: 0.45, seconds: 2.0 });
    let played = play(&job, 3);
    assert!(!played.died && !played.lost, "{played:?}");
    // At step 120 it would take 0.3 + 0.24 + 0.45 of the limit and fit; at 160 it would not.
    let (asked, level) = played.asked.unwrap();
    assert!((155..160).contains(&asked), "{played:?}");
    assert!(level < 0.65, "memory itself is far from its limit: {played:?}");
    assert!(played.told_evaluation.is_some_and(|step| step < 140), "and it is said long before: {played:?}");
}

#[test]
fn four_gigabytes_a_second_are_caught_while_a_save_is_possible() {
    for step_seconds in [0.02, 0.05, 0.2] {
        let per_step = 4e9 * step_seconds / LIMIT;
        let mut job = Job::leak(0.1, per_step, step_seconds).saves(10, 0.02);
        job.save_seconds = 0.3;
        let played = play(&job, 5);
        assert!(!played.died, "steps of {step_seconds} s: {played:?}");
        assert!(played.asked.is_some_and(|(_, level)| level > 0.7), "{played:?}");
    }
}

#[test]
fn a_job_that_takes_everything_within_one_step_is_seen_at_the_edge() {
    let job = Job::new(100, 1.0, |k| if k < 60 { 0.3 } else { 1.2 });
    let mut stage = Stage::new(&job, Guard::default(), 9);
    let mut edge = None;
    while stage.step < 59 {
        stage.one_step();
        assert!(!stage.guard.at_the_edge());
    }
    // The step that takes it all, looked at as closely as the guard asks for.
    let mut now = stage.now;
    while edge.is_none() && now < stage.now + 0.5 {
        let used = (0.3 + 0.9 * (now - stage.now) * 2.0) * LIMIT;
        stage.guard.look(Look { seconds: now, used, high: used, limit: LIMIT });
        edge = stage.guard.at_the_edge().then_some(used / LIMIT);
        now += stage.guard.next_look().unwrap_or(SLOWEST_LOOK).clamp(QUICKEST_LOOK, SLOWEST_LOOK);
    }
    assert!(edge.is_some_and(|level| (0.85..1.0).contains(&level)), "{edge:?}");
}

#[test]
fn a_bound_that_the_verdict_knows_holds_the_request_back_until_it_is_passed() {
    // A fill so quick that its last steps look like a leak that will not fit.
    let job = Job::new(200, 1.0, |k| 0.2 + 0.76 * (k as f64 / 20.0).min(1.0));
    assert!(play(&job, 2).asked.is_some(), "nobody can know by the curve alone");
    let mut guard = Guard::default();
    guard.set_bound(Some(0.965 * LIMIT));
    assert_eq!(Stage::new(&job, guard, 2).play().asked, None);
    let leak = Job::leak(0.2, 0.01, 1.0);
    let mut guard = Guard::default();
    guard.set_bound(Some(0.5 * LIMIT));
    let played = Stage::new(&leak, guard, 2).play();
    assert!(played.asked.is_some() && !played.died, "a bound that was passed was none: {played:?}");
}

#[test]
fn what_was_learnt_of_a_save_is_known_in_the_next_life() {
    let first = Job::leak(0.2, 0.01, 0.5).saves(10, 0.3);
    let mut stage = Stage::new(&first, Guard::default(), 4);
    while stage.step < 10 {
        stage.one_step();
    }
    stage.phase(MarkKind::Save, 0.3, 1.0);
    stage.guard.born();
    let guard = stage.guard.clone();
    let mut second = Job::leak(0.2, 0.01, 0.5);
    second.save_takes = 0.3;
    let played = Stage::new(&second, guard, 4).play();
    assert!(!played.died && played.asked.is_some_and(|(_, level)| level < 0.7), "{played:?}");
}

#[test]
fn before_the_first_save_the_bytes_of_the_model_stand_for_what_it_takes_and_then_what_was_seen() {
    let told = |guard: &mut Guard, facts: &str| {
        let (tick, number, extra) = (Tick(1), 0.0, Some(facts.to_owned()));
        let (kind, phase) = (MarkKind::Info, MarkPhase::Point);
        guard.mark(&Mark { tick, process: None, kind, phase, number, rank: None, extra });
    };
    let mut job = Job::leak(0.2, 0.01, 0.5);
    job.save_takes = 0.3;
    assert!(play(&job, 6).died, "nobody could know what its first save takes");
    let mut guard = Guard::default();
    told(&mut guard, &format!(r#"{{"model_bytes":{},"optimizer_bytes":2e9}}"#, 0.3 * LIMIT));
    assert_eq!(guard.save_seconds(), Some((0.3 * LIMIT + 2e9) / 100e6));
    let played = Stage::new(&job, guard.clone(), 6).play();
    assert!(!played.died && played.asked.is_some_and(|(_, level)| (0.6..0.7).contains(&level)), "{played:?}");
    // A save that was seen to take next to nothing leaves the rest of the limit to the job.
    let light = Job::leak(0.2, 0.01, 0.5).saves(10, 0.01);
    let played = Stage::new(&light, guard, 6).play();
    assert!(!played.died && played.asked.is_some_and(|(_, level)| level > 0.9), "{played:?}");
}

proptest::proptest! {
    #[test]
    fn no_look_and_no_mark_panics_or_asks_for_a_negative_time(
        looks in proptest::collection::vec((proptest::num::f64::ANY, proptest::num::f64::ANY, proptest::num::f64::ANY, 0_u8..6), 0..80),
    ) {
        let mut guard = Guard::default();
        for (seconds, used, limit, mark) in looks {
            guard.look(Look { seconds, used, high: used, limit });
            let kind = [MarkKind::Step, MarkKind::Save, MarkKind::Eval, MarkKind::Load, MarkKind::Info, MarkKind::Epoch][mark as usize];
            let phase = if used > 0.0 { MarkPhase::Start } else { MarkPhase::End };
            guard.mark(&Mark { tick: Tick(mark.into()), process: None, kind, phase, number: seconds, rank: None, extra: None });
            let _ = (guard.call(), guard.at_the_edge(), guard.evaluation_exceeds(), guard.seconds_left());
            proptest::prop_assert!(guard.next_look().is_none_or(|time| time >= 0.0));
        }
    }

    #[test]
    fn the_unit_of_memory_does_not_matter(scale in 0.001_f64..1000.0, per_step in 0.001_f64..0.02) {
        let asked = |scale: f64| {
            let job = Job::leak(0.2, per_step, 0.5);
            let mut guard = Guard::default();
            for step in 0..1000 {
                let used = (job.level)(step) * LIMIT * scale;
                for look in 0..3 {
                    let seconds = step as f64 * 0.5 + f64::from(look) * 0.1 + 0.1;
                    guard.look(Look { seconds, used, high: used, limit: LIMIT * scale });
                }
                let tick = Tick::from_seconds(step as f64 * 0.5 + 0.5);
                guard.mark(&Mark { tick, process: None, kind: MarkKind::Step, phase: MarkPhase::Point, number: step as f64 + 1.0, rank: None, extra: None });
                if guard.call() != Call::Hold {
                    return Some(step);
                }
            }
            None
        };
        proptest::prop_assert_eq!(asked(1.0), asked(scale));
    }
}
