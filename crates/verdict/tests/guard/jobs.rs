//! Made-up jobs, each from a number: those that fit and those that do not.
//!
//! The first two families are the ones the reckoning grew up with. The `rough` ones were made afterwards, to be unlike them:
//! looks that come late, steps of uneven length, memory that is kept early or late in a step, strangers under the same
//! limit, leaks of every few steps. A job that fits has room for two more of its steps and a save: with less nobody could
//! tell it from a leak in time.

use super::play::{Dice, Job, Keeps, Manner, Phase};

/// A job that fits, up to 97 % of its limit: eight kinds.
pub(crate) fn harmless(seed: u64) -> (&'static str, Job) {
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
        0 => ("warm-up", Job::new(steps, step_seconds, warm_up(base, top, quick))),
        1 => ("cache fill", Job::new(steps, step_seconds, fill(base, top, long))),
        2 => ("evaluations", Job::new(600, step_seconds, move |_| base)),
        3 => {
            ("spikes", Job::new(600, step_seconds, move |k| if k % (gap + wide) >= gap { top } else { base }))
        }
        4 => ("steady", Job::new(600, step_seconds, move |_| top)),
        5 => ("saw-tooth", Job::new(600, step_seconds, saw_tooth(base, top.min(0.85), 25 + gap))),
        6 => (
            "stairs",
            Job::new(600, step_seconds, move |k| base + (top - base) * ((k / tread).min(4) as f64 / 4.0)),
        ),
        _ => ("fill to 97 %", Job::new(steps, step_seconds, fill(base, 0.97 - swing, long))),
    };
    if seed % 8 == 2 {
        job.eval = Some(Phase { every: gap, takes: top - base, seconds: dice.between(0.5, 5.0) });
    }
    if seed.is_multiple_of(3) {
        job = job.saves(50, 0.01);
    }
    job.swing = swing;
    job.manner.jitter = dice.between(0.0, 0.004);
    (name, job)
}

/// A job that leaks the same at every step.
pub(crate) fn leak(seed: u64) -> (f64, Job) {
    let mut dice = Dice(seed + 7);
    let step_seconds = dice.scale(0.1, 4.0);
    let per_step = dice.scale(0.0005, 0.02) * (step_seconds / 0.2).min(1.0);
    let takes = dice.between(0.0, 0.3);
    let start = dice.between(0.1, 0.4);
    let every = (2.0 / step_seconds).max(10.0) as usize;
    let mut job = Job::leak(start, per_step, step_seconds).saves(every, takes);
    job.swing = dice.between(0.0, 0.1);
    job.manner.jitter = dice.between(0.0, 0.002);
    (per_step, job)
}

fn warm_up(base: f64, top: f64, quick: f64) -> impl Fn(usize) -> f64 {
    move |k| base + (top - base) * (1.0 - (-(k as f64) / quick).exp())
}

fn fill(base: f64, top: f64, long: f64) -> impl Fn(usize) -> f64 {
    move |k| base + (top - base) * (k as f64 / long).min(1.0)
}

fn saw_tooth(base: f64, top: f64, tooth: usize) -> impl Fn(usize) -> f64 {
    move |k| base + (top - base) * (k % tooth) as f64 / tooth as f64
}

/// How looks and steps may come.
fn manner(dice: &mut Dice) -> Manner {
    let jitter = dice.between(0.0, 0.004);
    let uneven = if dice.happens(0.5) { dice.between(0.0, 0.1) } else { dice.between(0.1, 0.25) };
    let slow_every = dice.happens(0.25).then(|| 7 + dice.one_of(50));
    let stalls = dice.happens(0.25).then(|| (dice.scale(30.0, 1000.0), dice.scale(0.02, 0.3)));
    let keeps = [Keeps::First, Keeps::Throughout, Keeps::Last][dice.one_of(3)];
    Manner { jitter, uneven, slow_every, stalls, keeps }
}

/// What all rough jobs have in common, and the room that two of their steps and a save take.
struct Rough {
    dice: Dice,
    step_seconds: f64,
    base: f64,
    swing: f64,
    save: f64,
    manner: Manner,
}

impl Rough {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed);
        let step_seconds = dice.scale(0.03, 5.0);
        let base = dice.between(0.05, 0.4);
        let swing = if dice.happens(0.3) { 0.0 } else { dice.scale(0.001, 0.08) };
        let save = if dice.happens(0.5) { 0.0 } else { dice.scale(0.001, 0.02) };
        let manner = manner(&mut dice);
        Self { dice, step_seconds, base, swing, save, manner }
    }

    /// As high as it may go when a step adds so much at most.
    fn top(&self, wanted: f64, per_step: f64) -> f64 {
        // Late looks cost steps, and what a look reads is not exact.
        let late = self.manner.stalls.map_or(0.0, |(_, most)| most);
        let steps = 2.0 + (0.1 + late) / self.step_seconds;
        let beside = self.swing.max(self.save) + 0.1 * self.swing + 2.0 * self.manner.jitter + 0.002;
        wanted.min(1.0 - beside - steps * per_step)
    }

    fn job(&self, steps: usize, level: impl Fn(usize) -> f64 + 'static) -> Job {
        let mut job = Job::new(steps, self.step_seconds, level);
        if self.save > 0.0 {
            job = job.saves(50, self.save);
        }
        job.swing = self.swing;
        job.manner = self.manner;
        job
    }

    /// So many steps as take some seconds, and at least so many.
    fn steps(&mut self, seconds: f64, least: f64) -> f64 {
        self.dice.scale(1.0, 8.0) * (seconds / self.step_seconds).max(least)
    }

    /// Where growth of so many steps may end, and begins.
    fn filled(&mut self, low: f64, high: f64, steps: f64) -> f64 {
        let wanted = self.dice.between(low, high);
        let top = self.top(wanted, (wanted - self.base) / steps);
        top.max(self.base)
    }
}

/// A job that fits and is rough: twelve kinds.
pub(crate) fn rough_harmless(seed: u64) -> (&'static str, Job) {
    let mut rough = Rough::new(seed);
    match seed % 12 {
        0 => ("fill to 97 to 99 %", fill_to_the_brim(&mut rough)),
        1 => ("warm-up to 99 %", brimful_warm_up(&mut rough)),
        2 => ("uneven saw-teeth", uneven_teeth(&mut rough)),
        3 => ("slow drift that ends", slow_drift(&mut rough)),
        4 => ("noise", noise(&mut rough)),
        5 => ("strangers", strangers(&mut rough)),
        6 => ("saves of 30 %", needy_saves(&mut rough)),
        7 => ("evaluations that grow a little", growing_evaluations(&mut rough)),
        8 => ("uneven stairs", uneven_stairs(&mut rough)),
        9 => ("steady at 97 to 99 %", steady_at_the_brim(&mut rough)),
        10 => ("two fills", two_fills(&mut rough)),
        _ => ("heavy steps now and then", heavy_steps(&mut rough)),
    }
}

fn fill_to_the_brim(rough: &mut Rough) -> Job {
    let long = rough.steps(10.0, 60.0);
    let top = rough.filled(0.97, 0.99, long);
    rough.job(600.max(2 * long as usize).min(4000), fill(rough.base, top, long))
}

fn brimful_warm_up(rough: &mut Rough) -> Job {
    let quick = rough.steps(4.0, 15.0);
    let top = rough.top(0.99, 0.0);
    rough.job(600.max(8 * quick as usize).min(4000), warm_up(rough.base, top, quick))
}

fn uneven_teeth(rough: &mut Rough) -> Job {
    let shortest = rough.steps(3.0, 20.0);
    let top = rough.filled(0.6, 0.97, shortest);
    let mut dice = rough.dice.clone();
    let teeth: Vec<f64> = (0..200).map(|_| dice.between(1.0, 2.5) * shortest).collect();
    let base = rough.base;
    let level = move |k: usize| {
        let mut left = k as f64;
        for tooth in &teeth {
            if left < *tooth {
                return base + (top - base) * left / (2.5 * shortest);
            }
            left -= tooth;
        }
        base
    };
    rough.job(1000, level)
}

fn slow_drift(rough: &mut Rough) -> Job {
    let long = rough.steps(60.0, 400.0).min(2500.0);
    let begin = rough.dice.between(0.3, 0.8);
    rough.base = begin;
    let by = rough.dice.between(0.01, 0.1);
    let top = rough.top(begin + by, by / long).max(begin);
    rough.job((1.5 * long).clamp(600.0, 4000.0) as usize, fill(begin, top, long))
}

fn noise(rough: &mut Rough) -> Job {
    let width = rough.dice.scale(0.002, 0.05);
    let top = rough.top(rough.dice.clone().between(0.6, 0.98), 2.0 * width);
    let mut dice = rough.dice.clone();
    let mut at = 0.0;
    let walk: Vec<f64> = (0..1001)
        .map(|_| {
            at = (0.9 * at + 0.3 * width * dice.bell()).clamp(-width, width);
            top - width + at
        })
        .collect();
    rough.job(1000, move |k| walk[k.min(1000)])
}

fn strangers(rough: &mut Rough) -> Job {
    let height = rough.dice.between(0.02, 0.3);
    let ramp = rough.dice.scale(0.5, 20.0);
    let (every, stays) = (rough.dice.between(60.0, 200.0), rough.dice.between(5.0, 30.0));
    let per_step = height / (ramp / rough.step_seconds).max(1.0);
    let own = rough.top(rough.dice.clone().between(0.5, 0.97), per_step) - height;
    let mut job = rough.job(800, move |_| own.max(0.02));
    job.strangers = Box::new(move |now| {
        let at = now % every;
        let up = ((at - 20.0) / ramp).clamp(0.0, 1.0);
        let down = ((at - 20.0 - ramp - stays) / ramp).clamp(0.0, 1.0);
        height * (up - down).max(0.0)
    });
    job
}

fn needy_saves(rough: &mut Rough) -> Job {
    rough.save = rough.dice.between(0.2, 0.3);
    let long = rough.steps(10.0, 60.0);
    let top = rough.filled(0.6, 0.8, long);
    let base = rough.base.min(top);
    rough.job(600.max(2 * long as usize).min(4000), fill(base, top, long))
}

fn growing_evaluations(rough: &mut Rough) -> Job {
    let (more, times) = (rough.dice.scale(0.0005, 0.01), 4 + rough.dice.one_of(10));
    let highest = rough.dice.between(0.7, 0.97) - 2.0 * more - rough.manner.jitter;
    let first = (highest - rough.base - more * times as f64).max(0.01);
    let every = 10 + rough.dice.one_of(40);
    let base = rough.base;
    let mut job = rough.job(800, move |_| base);
    job.eval = Some(Phase { every, takes: first, seconds: rough.dice.between(0.5, 5.0) });
    job.eval_grows = (more, times);
    job
}

fn uneven_stairs(rough: &mut Rough) -> Job {
    let shortest = rough.steps(2.0, 8.0);
    let count = 3 + rough.dice.one_of(8);
    let wanted = rough.dice.between(0.6, 0.97);
    let mut dice = rough.dice.clone();
    let rises: Vec<(f64, f64)> =
        (0..count).map(|_| (dice.between(1.0, 4.0) * shortest, dice.between(0.3, 1.0))).collect();
    let all: f64 = rises.iter().map(|rise| rise.1).sum();
    // A rise says nothing of the next, which nobody knows to be the last.
    let top = rough.top(wanted, (wanted - rough.base) * 1.0 / all).max(rough.base);
    let base = rough.base;
    let level = move |k: usize| {
        let (mut at, mut up) = (0.0, 0.0);
        for (tread, rise) in &rises {
            at += tread;
            if k as f64 >= at {
                up += rise / all;
            }
        }
        base + (top - base) * up
    };
    rough.job(1000, level)
}

fn steady_at_the_brim(rough: &mut Rough) -> Job {
    let top = rough.dice.between(0.97, 0.99) - rough.swing.max(rough.save) - rough.manner.jitter;
    rough.job(800, move |_| top)
}

fn two_fills(rough: &mut Rough) -> Job {
    let (first, second) = (rough.steps(8.0, 40.0), rough.steps(8.0, 40.0));
    let top = rough.filled(0.7, 0.98, first.min(second));
    let (base, part, pause) = (rough.base, rough.dice.between(0.2, 0.8), rough.dice.between(0.0, 200.0));
    let level = move |k: usize| {
        let k = k as f64;
        let one = (k / first).min(1.0) * part;
        let two = ((k - first - pause) / second).clamp(0.0, 1.0) * (1.0 - part);
        base + (top - base) * (one + two)
    };
    rough.job(800.max((first + second + pause) as usize * 3 / 2).min(5000), level)
}

fn heavy_steps(rough: &mut Rough) -> Job {
    let every = 2 + rough.dice.one_of(8);
    let height = rough.dice.between(0.02, 0.2);
    let top = rough.top(rough.dice.clone().between(0.6, 0.98), 0.0);
    rough.job(800, move |k| if k.is_multiple_of(every) { top } else { (top - height).max(0.02) })
}

/// A job that grows without end, or further than its limit: what it adds a step on the mean, and the most.
pub(crate) struct Growing {
    pub(crate) name: &'static str,
    pub(crate) job: Job,
    pub(crate) per_step: f64,
    pub(crate) most: f64,
}

/// A job that leaks and is rough: eight kinds.
pub(crate) fn rough_leak(seed: u64) -> Growing {
    let mut rough = Rough::new(seed ^ 0x1eaf);
    rough.step_seconds = rough.dice.scale(0.1, 5.0);
    rough.save = rough.dice.between(0.0, 0.3);
    rough.base = rough.dice.between(0.05, 0.3);
    let per_step = rough.dice.scale(0.0005, 0.015) * (rough.step_seconds / 0.2).min(1.0);
    let base = rough.base;
    let every = 2 + rough.dice.one_of(3);
    let flat = rough.dice.between(20.0, 300.0) as usize;
    let mut dice = rough.dice.clone();
    let (name, most, level): (_, f64, Box<dyn Fn(usize) -> f64>) = match seed % 8 {
        0 => ("leak", 1.0, Box::new(move |k| base + per_step * k as f64)),
        1 => (
            "leak every few steps",
            every as f64,
            Box::new(move |k| base + per_step * (k / every * every) as f64),
        ),
        2 => {
            let mut sum = 0.0;
            let sizes: Vec<f64> = (0..3000)
                .map(|_| {
                    sum += dice.between(0.3, 1.7);
                    sum
                })
                .collect();
            ("leak of uneven sizes", 1.7, Box::new(move |k| base + per_step * sizes[k.min(2999)]))
        }
        3 => {
            let heavy = dice.between(0.01, 0.05);
            let level = move |k: usize| {
                base + per_step * k as f64 + if k.is_multiple_of(every) { heavy } else { 0.0 }
            };
            ("leak beside heavy steps", 1.0 + heavy / per_step, Box::new(level))
        }
        4 => (
            "leak after a flat time",
            1.0,
            Box::new(move |k| base + per_step * k.saturating_sub(flat) as f64),
        ),
        5 => {
            let warm = warm_up(0.0, 0.2, 15.0);
            ("leak behind a warm-up", 1.0, Box::new(move |k| base + warm(k) + per_step * k as f64))
        }
        6 => {
            let faster = move |k: usize| 1.0 + k as f64 / 200.0;
            ("leak that gathers speed", 6.0, Box::new(move |k| base + per_step * k as f64 * faster(k) / 2.0))
        }
        _ => ("leak with evaluations", 1.0, Box::new(move |k| base + per_step * k as f64)),
    };
    let mut job = rough.job(usize::MAX, level);
    let often = (2.0 / rough.step_seconds).max(10.0) as usize;
    job = job.saves(often, rough.save);
    if seed % 8 == 7 {
        let (every, takes) = (10 + rough.dice.one_of(40), rough.dice.between(0.01, 0.2));
        // Nobody can know of the first.
        let takes = takes.min(0.85 - base - per_step * every as f64).max(0.0);
        job.eval = Some(Phase { every, takes, seconds: rough.dice.between(0.5, 3.0) });
    }
    Growing { name, job, per_step, most: most * per_step }
}

/// A cache that fills further than the limit, and would end there.
pub(crate) fn overfull(seed: u64) -> Growing {
    let mut rough = Rough::new(seed ^ 0xf111);
    rough.step_seconds = rough.step_seconds.max(0.1);
    rough.save = rough.dice.between(0.0, 0.2);
    let long = rough.steps(20.0, 80.0);
    let top = rough.dice.scale(1.02, 3.0);
    let per_step = (top - rough.base) / long;
    let per_step = per_step.min(0.015 * (rough.step_seconds / 0.2).min(1.0));
    let base = rough.base;
    let mut job = rough.job(6000, move |k| (base + per_step * k as f64).min(top));
    job = job.saves((2.0 / rough.step_seconds).max(10.0) as usize, rough.save);
    Growing { name: "a fill that does not fit", job, per_step, most: per_step }
}

/// An evaluation that fits at first and then no more: training leaks, or it takes more each time. With its step.
pub(crate) fn spiking(seed: u64) -> (Job, usize) {
    let mut rough = Rough::new(seed ^ 0xe7a1);
    rough.step_seconds = rough.step_seconds.max(0.1);
    rough.manner.jitter = rough.manner.jitter.min(0.002);
    let every = 10 + rough.dice.one_of(50);
    let base = rough.base;
    let height = rough.dice.between(0.3, 0.5);
    let room = 1.0 - base - height;
    // The last that fits leaves some room, and the first that does not lacks some: nobody can measure to a hair.
    let times = 2.0 + rough.dice.one_of(4) as f64 + rough.dice.between(0.25, 0.75);
    let by_training = seed.is_multiple_of(2);
    let each = room / times;
    let per_step = if by_training { each / every as f64 } else { 0.0 };
    let more = if by_training { 0.0 } else { each };
    let mut job = rough.job(usize::MAX, move |k| base + per_step * k as f64);
    job.eval = Some(Phase { every, takes: height, seconds: rough.dice.between(0.5, 3.0) });
    job.eval_grows = (more, usize::MAX);
    // The first that does not fit: evaluations are counted from 0, training from its first step.
    let exceeds = |count: usize| {
        let beside = per_step * (every * count) as f64;
        base + beside + height + more * (count - 1) as f64 > 1.0
    };
    let count = (1..100).find(|count| exceeds(*count)).unwrap_or(100);
    (job, count * every)
}
