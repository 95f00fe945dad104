//! Jobs that fit, each from a number, as real processes play them (`harmless`) and the reckoning alone does
//! (`crates/verdict/tests/guard`).
//!
//! A job that fits has room for two more of its steps, for what it adds in half a second (looks come late where a dozen
//! jobs share two cores), and for a save: with less, nobody could tell it from a leak in time.

/// How late a look may come, in seconds, with all that has to be done then.
const LATE: f64 = 0.5;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        low + (high - low) * (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn happens(&mut self, chance: f64) -> bool {
        self.between(0.0, 1.0) < chance
    }
}

/// A job that fits; memory as a part of its limit.
pub(crate) struct Variant {
    pub(crate) shape: &'static str,
    pub(crate) limit_mib: u64,
    /// Held when each step ends, the first before the first step.
    pub(crate) levels: Vec<f64>,
    pub(crate) step_seconds: f64,
    pub(crate) swing: f64,
    /// Steps are off by this part of their time, levels by this part of the limit.
    pub(crate) uneven: f64,
    pub(crate) noise: f64,
    pub(crate) keeps: &'static str,
    /// Every so many steps: what it takes, and how long.
    pub(crate) eval: Option<(usize, f64, f64)>,
    pub(crate) save: Option<(usize, f64, f64)>,
}

/// What all shapes are made from.
struct Draft {
    dice: Dice,
    step_seconds: f64,
    swing: f64,
    noise: f64,
    save: f64,
}

impl Draft {
    /// The highest that a job may come to hold that adds so much a second.
    fn top(&mut self, low: f64, high: f64, per_second: f64) -> f64 {
        let beside = 1.1 * self.swing.max(self.save) + 2.0 * self.noise + 0.004;
        self.dice.between(low, high).min(1.0 - beside - per_second * (2.0 * self.step_seconds + LATE))
    }

    fn steps(&self, seconds: f64) -> usize {
        (seconds / self.step_seconds) as usize
    }

    /// From somewhere up to `top`, at one pace, and then no more.
    fn fill(&mut self, low: f64, high: f64) -> Vec<f64> {
        let (seconds, by) = (self.dice.between(2.0, 3.0), self.dice.between(0.05, 0.3));
        // Where the wanted level leaves little room, it is come to slowly.
        let wanted = self.dice.between(low, high);
        let beside = 1.1 * self.swing.max(self.save) + 2.0 * self.noise + 0.004;
        let room = (1.0 - beside - wanted) / (2.0 * self.step_seconds + LATE);
        let by = by.min(seconds * room.max(0.01));
        let top = self.top(wanted, wanted, by / seconds);
        let rising = self.steps(seconds);
        (0..=rising + self.steps(0.8))
            .map(|k| top - by * (1.0 - (k as f64 / rising as f64).min(1.0)))
            .collect()
    }

    fn warm_up(&mut self) -> Vec<f64> {
        let (tau, by) = (self.dice.between(0.6, 1.0), self.dice.between(0.1, 0.7));
        let top = self.top(0.6, 0.97, 0.0).max(by + 0.05);
        let level = |k: usize| top - by * (-(k as f64) * self.step_seconds / tau).exp();
        (0..=self.steps(3.5)).map(level).collect()
    }

    fn saw_teeth(&mut self) -> Vec<f64> {
        let (tooth, by) = (self.dice.between(0.8, 1.6), self.dice.between(0.05, 0.3));
        let top = self.top(0.6, 0.95, by / tooth);
        let teeth = |k: usize| (k as f64 * self.step_seconds / tooth).fract();
        (0..=self.steps(3.5)).map(|k| top - by * (1.0 - teeth(k))).collect()
    }

    fn spikes(&mut self) -> Vec<f64> {
        let (gap, wide) = (self.dice.between(8.0, 25.0) as usize, self.dice.between(1.0, 5.0) as usize);
        let (top, base) = (self.top(0.6, 0.97, 0.0), self.dice.between(0.2, 0.5));
        (0..=self.steps(3.5)).map(|k| if k % (gap + wide) >= gap { top } else { base }).collect()
    }

    /// Nobody can know that a rise is the last: room for one more.
    fn stairs(&mut self) -> Vec<f64> {
        let (tread, rise) = (self.dice.between(0.8, 1.1), self.dice.between(0.02, 0.1));
        let top = self.top(0.5 + rise, 0.97, 0.0) - rise;
        let climbed = |k: usize| (k as f64 * self.step_seconds / tread).floor().min(3.0);
        (0..=self.steps(4.0)).map(|k| top - rise * (3.0 - climbed(k))).collect()
    }

    fn flat(&mut self, low: f64, high: f64) -> Vec<f64> {
        let top = self.top(low, high, 0.0);
        vec![top; self.steps(3.0) + 1]
    }
}

pub(crate) fn drawn(seed: u64) -> Variant {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x4a6d);
    let step_seconds = dice.between(0.02, 0.1);
    let swing = if dice.happens(0.3) { 0.0 } else { dice.between(0.0, 0.04) };
    let noise = dice.between(0.0, 0.002);
    let saves = dice.happens(0.35);
    let save = if saves { dice.between(0.005, 0.15) } else { 0.0 };
    let (limit_mib, uneven) = (dice.between(96.0, 256.0) as u64, dice.between(0.0, 0.2));
    let keeps = ["first", "throughout", "last"][dice.between(0.0, 3.0) as usize];
    let mut draft = Draft { dice, step_seconds, swing, noise, save };
    let mut eval = None;
    let (shape, levels) = match seed % 8 {
        0 => ("warm-up", draft.warm_up()),
        1 => ("cache fill", draft.fill(0.5, 0.95)),
        2 => {
            draft.save = 0.0;
            draft.swing = draft.swing.min(0.02);
            ("fill to 97 %", draft.fill(0.97 - 1.1 * draft.swing, 0.97 - 1.1 * draft.swing))
        }
        3 => ("spikes", draft.spikes()),
        4 => ("saw-teeth", draft.saw_teeth()),
        5 => {
            let base = draft.dice.between(0.2, 0.6);
            let takes = draft.top(0.7, 0.96, 0.0) - base;
            let (every, seconds) = (draft.dice.between(8.0, 20.0) as usize, draft.dice.between(0.05, 0.3));
            eval = Some((every, takes, seconds));
            ("evaluations", vec![base; draft.steps(3.0) + 1])
        }
        6 => ("stairs", draft.stairs()),
        _ => ("steady", draft.flat(0.5, 0.985)),
    };
    let save = (draft.save > 0.0).then(|| (draft.dice.between(10.0, 30.0) as usize, draft.save, 0.05));
    let Draft { step_seconds, swing, noise, .. } = draft;
    Variant { shape, limit_mib, levels, step_seconds, swing, uneven, noise, keeps, eval, save }
}

impl Variant {
    /// What is held when each step ends, and how long it takes in seconds.
    pub(crate) fn steps(&self, seed: u64) -> Vec<(f64, f64)> {
        let mut dice = Dice(seed);
        let noisy = |level: &f64| {
            let off = dice.between(-self.noise, self.noise);
            (level + off, self.step_seconds * dice.between(1.0 - self.uneven, 1.0 + self.uneven))
        };
        self.levels.iter().skip(1).map(noisy).collect()
    }
}
