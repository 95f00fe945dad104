//! How fast memory grows, step by step, as far as a guard may believe it.
//!
//! Time is cut into laps: a lap is at least one step (or a few looks, where no steps are known) with the lowest and the
//! highest memory in it. Growth is believed when floors rise lap after lap **and** the peaks go where memory has not been
//! before: a saw-tooth, a spike that comes back and a warm-up that bends are none of it. Not here: what follows from it.

use super::Look;
use std::collections::VecDeque;

/// A lap has at least so many looks in it ...
const LEAST_LOOKS: u32 = 2;
/// ... and this many where no steps are known.
const LOOKS_WITHOUT_STEPS: u32 = 8;
/// Laps kept one by one.
const RECENT: usize = 32;
/// Laps of the whole life; when there are more, neighbours are made one.
const WHOLE: usize = 64;
/// Fewer laps show no slow growth.
const LEAST_SLOW: usize = 8;
/// A rise from lap to lap below this part of the limit is noise: five thousand of them fit.
const NOISE_PART: f64 = 2e-4;
/// A rise that grows by more than this from lap to lap is a jump, not a course.
const MOST_RATIO: f64 = 4.0;
/// Peaks of so many laps count as the peak of now.
const PEAK_LAPS: usize = 3;

/// A stretch of training.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lap {
    pub(super) begin: f64,
    pub(super) end: f64,
    /// Steps in it; 1 where none are known.
    pub(super) steps: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    looks: u32,
    /// Its peak is the highest of this life.
    fresh: bool,
}

/// Growth that is believed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// Bytes a step.
    pub(super) per_step: f64,
    /// How long a step takes at most.
    pub(super) step_seconds: f64,
}

/// The laps of one life.
#[derive(Clone, Debug, Default)]
pub(super) struct Laps {
    open: Option<Lap>,
    recent: VecDeque<Lap>,
    whole: Vec<Lap>,
    /// How many laps one of `whole` stands for, and the one that is being gathered.
    stride: usize,
    gathered: Option<(Lap, usize)>,
    record: f64,
    /// The floor at the beginning.
    pub(super) first_low: Option<f64>,
    noise: f64,
    steps_known: bool,
}

impl Laps {
    /// A look while the job trains.
    pub(super) fn look(&mut self, look: &Look) {
        self.noise = look.limit * NOISE_PART;
        let lap = self.open.get_or_insert(Lap {
            begin: look.seconds,
            end: look.seconds,
            steps: 0.0,
            low: look.used,
            high: look.used,
            looks: 0,
            fresh: false,
        });
        lap.end = look.seconds;
        lap.low = lap.low.min(look.used);
        lap.high = lap.high.max(look.high);
        lap.looks += 1;
        if !self.steps_known && lap.looks >= LOOKS_WITHOUT_STEPS {
            lap.steps = 1.0;
            self.close();
        }
    }

    /// So many steps ended.
    pub(super) fn stepped(&mut self, steps: f64) {
        if !std::mem::replace(&mut self.steps_known, true) {
            // What came before the first step was loading.
            *self = Self { steps_known: true, noise: self.noise, ..Self::default() };
            return;
        }
        if let Some(lap) = &mut self.open {
            lap.steps += steps;
            if lap.looks >= LEAST_LOOKS {
                self.close();
            }
        }
    }

    /// The job turned to something else: what is open says nothing whole.
    pub(super) fn interrupted(&mut self) {
        self.open = None;
    }

    fn close(&mut self) {
        let Some(mut lap) = self.open.take() else { return };
        lap.fresh = lap.high > self.record + self.noise / 4.0;
        self.record = self.record.max(lap.high);
        self.first_low.get_or_insert(lap.low);
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(lap);
        self.gather(lap);
    }

    fn gather(&mut self, lap: Lap) {
        let stride = self.stride.max(1);
        let (sum, count) = match self.gathered.take() {
            Some((sum, count)) => (merged(sum, lap), count + 1),
            None => (lap, 1),
        };
        if count < stride {
            self.gathered = Some((sum, count));
            return;
        }
        self.whole.push(sum);
        if self.whole.len() > WHOLE {
            let pairs: Vec<Lap> =
                self.whole.chunks(2).filter(|pair| pair.len() == 2).map(|p| merged(p[0], p[1])).collect();
            let left = (self.whole.len() % 2 == 1).then(|| self.whole.last().copied()).flatten();
            self.gathered = left.map(|lap| (lap, stride));
            self.whole = pairs;
            self.stride = stride * 2;
        }
    }

    /// Whether anything was seen that can be judged.
    pub(super) fn len(&self) -> usize {
        self.recent.len()
    }

    /// The highest of now.
    pub(super) fn high(&self) -> f64 {
        let done = self.recent.iter().rev().take(PEAK_LAPS).map(|lap| lap.high);
        done.chain(self.open.map(|lap| lap.high)).fold(0.0, f64::max)
    }

    /// The floor of now.
    pub(super) fn low(&self) -> Option<f64> {
        self.recent.back().map(|lap| lap.low)
    }

    /// The highest of this life.
    pub(super) fn record(&self) -> f64 {
        self.record
    }

    /// The longest step of late.
    pub(super) fn step_seconds(&self) -> Option<f64> {
        let each = self.recent.iter().rev().take(8).filter(|lap| lap.steps > 0.0);
        each.map(|lap| (lap.end - lap.begin).max(0.0) / lap.steps).reduce(f64::max)
    }

    /// Growth, if there is any to believe in.
    pub(super) fn growth(&self) -> Option<Growth> {
        let recent: Vec<Lap> = self.recent.iter().copied().collect();
        let found = [self.quick(&recent), self.slow(&recent), self.slow(&self.whole)];
        let per_step = found.into_iter().flatten().reduce(f64::max)?;
        Some(Growth { per_step, step_seconds: self.step_seconds()? })
    }

    /// Three rises in a row, each to where memory has not been before.
    fn quick(&self, laps: &[Lap]) -> Option<f64> {
        let last: &[Lap; 4] = laps.last_chunk()?;
        let rises: Vec<f64> =
            last.windows(2).map(|pair| (pair[1].low - pair[0].low) / pair[1].steps).collect();
        let real = last[1..].iter().all(|lap| lap.fresh)
            && last.windows(2).all(|pair| pair[1].low - pair[0].low > self.noise);
        if !real {
            return None;
        }
        let (first, middle, newest) = (rises[0], rises[1], rises[2]);
        if newest <= middle && middle <= first {
            return Some(newest);
        }
        if newest >= middle && middle >= first && newest <= middle * MOST_RATIO {
            // It gathers speed: the next rise is larger than the last.
            return Some(newest * (newest / middle).min(2.0));
        }
        let mut sorted = [first, middle, newest];
        sorted.sort_by(f64::total_cmp);
        Some(sorted[1])
    }

    /// Floors of four quarters that rise, with the highest peak in the last.
    fn slow(&self, laps: &[Lap]) -> Option<f64> {
        if laps.len() < LEAST_SLOW {
            return None;
        }
        let size = laps.len() / 4;
        let used = &laps[laps.len() - 4 * size..];
        let quarters: Vec<&[Lap]> = used.chunks(size).collect();
        let floor = |laps: &[Lap]| laps.iter().map(|lap| lap.low).fold(f64::INFINITY, f64::min);
        let floors: Vec<f64> = quarters.iter().map(|quarter| floor(quarter)).collect();
        let rises = floors.windows(2).all(|pair| pair[1] - pair[0] > self.noise);
        let newest = quarters[3];
        let peak = newest.iter().map(|lap| lap.high).fold(0.0, f64::max);
        let new_ground = peak >= self.record - self.noise && newest.iter().any(|lap| lap.fresh);
        let steps: f64 = newest.iter().map(|lap| lap.steps).sum();
        (rises && new_ground && steps > 0.0).then(|| (floors[3] - floors[2]) / steps)
    }
}

fn merged(first: Lap, second: Lap) -> Lap {
    Lap {
        begin: first.begin,
        end: second.end,
        steps: first.steps + second.steps,
        low: first.low.min(second.low),
        high: first.high.max(second.high),
        looks: first.looks.saturating_add(second.looks),
        fresh: first.fresh || second.fresh,
    }
}
