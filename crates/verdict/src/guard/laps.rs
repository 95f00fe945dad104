//! How fast memory grows, step by step, as far as a guard may believe it.
//!
//! Time is cut into laps: a lap is at least one step (or a few looks, where no steps are known) with the lowest and the
//! highest memory in it; the time of evaluations and saves is left out. Growth is believed when floors rise lap after lap **and** the peaks go where memory has not been
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
/// Rises that each grow by so much gather speed ...
const FASTER: f64 = 1.5;
/// ... and one that grows by more than this is a jump, not a course.
const MOST_RATIO: f64 = 4.0;
/// A rise that is only this part of the mean bends.
const BENT: f64 = 0.6;
/// The floor may rise so many times as fast as the peak.
const PEAKS_AGREE: f64 = 1.5;
/// Rises whose mean is so many times their median are a jump and noise.
const UNEVEN: f64 = 2.0;
/// A floor that falls by so many times the noise is lower.
const FELL: f64 = 50.0;
/// Growth that was seen is believed for so many laps that do not show it.
const BELIEVED_LAPS: usize = 8;
/// A step is taken to last at least this long, in seconds.
const SHORTEST: f64 = 1e-3;
/// Peaks of so many laps count as the peak of now.
const PEAK_LAPS: usize = 3;
/// Not every look meets the floor of a step: so many looks tell it ...
const FLOOR_LOOKS: u32 = 12;
/// ... of so many laps at most.
const FLOOR_LAPS: usize = 4;

/// A stretch of training.
#[derive(Clone, Copy, Debug)]
struct Lap {
    begin: f64,
    end: f64,
    /// Steps in it; 1 where none are known.
    steps: f64,
    low: f64,
    /// When it was lowest.
    low_at: f64,
    high: f64,
    high_at: f64,
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
    /// When the newest step ended.
    stepped_at: Option<f64>,
    /// Worked out when a lap ends.
    growth: Option<Growth>,
    /// Laps since then that did not show it.
    unconfirmed: usize,
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
            low_at: look.seconds,
            high: look.used,
            high_at: look.seconds,
            looks: 0,
            fresh: false,
        });
        lap.end = look.seconds;
        if look.used < lap.low {
            (lap.low, lap.low_at) = (look.used, look.seconds);
        }
        if look.high > lap.high {
            (lap.high, lap.high_at) = (look.high, look.seconds);
        }
        lap.looks += 1;
        if !self.steps_known && lap.looks >= LOOKS_WITHOUT_STEPS {
            lap.steps = 1.0;
            self.close();
        }
    }

    /// So many steps ended, the last at this time.
    pub(super) fn stepped(&mut self, steps: f64, at: f64) {
        if !std::mem::replace(&mut self.steps_known, true) {
            // What came before the first step was loading.
            *self = Self { steps_known: true, noise: self.noise, ..Self::default() };
            return;
        }
        self.stepped_at = Some(at);
        if let Some(lap) = &mut self.open {
            lap.steps += steps;
            if lap.looks >= LEAST_LOOKS {
                self.close();
            }
        }
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
        if self
            .recent
            .iter()
            .rev()
            .skip(1)
            .take(FLOOR_LAPS)
            .any(|before| lap.low < before.low - self.noise * FELL)
        {
            // It fell: whatever rose before is given back.
            self.growth = None;
        }
        match self.work_out() {
            Some(growth) => (self.growth, self.unconfirmed) = (Some(growth), 0),
            // Looks that miss a peak or a floor make a lap that shows nothing: growth is believed a little longer.
            None if self.unconfirmed < BELIEVED_LAPS => self.unconfirmed += 1,
            None => self.growth = None,
        }
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

    /// The highest in steps that have ended, and since then.
    pub(super) fn highs(&self) -> (f64, f64) {
        let done = self.recent.iter().rev().take(PEAK_LAPS).map(|lap| lap.high).fold(0.0, f64::max);
        (done, self.open.map_or(0.0, |lap| lap.high))
    }

    /// The floor when the last step ended: as it was seen of late, with what growth had added by then, but never above
    /// what is taken now. Nothing when it fell: whatever rose before is given back.
    pub(super) fn floor(&self, used: f64) -> Option<f64> {
        let last = self.recent.back()?;
        let rate = self.growth.map_or(0.0, |growth| growth.per_step / growth.step_seconds);
        let ended = self.stepped_at.unwrap_or(last.end);
        let (mut then, mut lowest, mut looks) = (f64::INFINITY, f64::INFINITY, 0);
        for lap in self.recent.iter().rev().take(FLOOR_LAPS) {
            then = then.min(lap.low + rate * (ended - lap.low_at).max(0.0));
            lowest = lowest.min(lap.low);
            looks += lap.looks;
            if looks >= FLOOR_LOOKS {
                break;
            }
        }
        (used >= lowest - self.noise).then(|| then.min(used))
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
        self.growth
    }

    fn work_out(&self) -> Option<Growth> {
        let recent: Vec<Lap> = self.recent.iter().copied().collect();
        let whole = &self.whole;
        let rates = [
            self.quick(&recent),
            self.slow(&recent),
            self.slow(whole),
            self.peaks(&recent),
            self.peaks(whole),
        ];
        let rate = rates.into_iter().flatten().reduce(f64::max)?;
        let step_seconds = self.step_seconds()?.max(SHORTEST);
        Some(Growth { per_step: rate * step_seconds, step_seconds })
    }

    /// Bytes a second by three rises in a row, each to where memory has not been before.
    fn quick(&self, laps: &[Lap]) -> Option<f64> {
        let last: &[Lap; 4] = laps.last_chunk()?;
        let real = last[1..].iter().all(|lap| lap.fresh)
            && last.windows(2).all(|pair| pair[1].low - pair[0].low > self.noise);
        let rates: Vec<f64> = last.windows(2).filter_map(|pair| rate(pair[0], pair[1])).collect();
        let &[first, middle, newest] = rates.as_slice() else { return None };
        let faster = |one: f64, next: f64| next >= one * FASTER && next <= one * MOST_RATIO;
        let median = first.max(middle).min(first.min(middle).max(newest));
        let mean = rate(last[0], last[3])?;
        let course = if faster(first, middle) && faster(middle, newest) {
            newest
        } else if mean > UNEVEN * median {
            // A jump among them is not a course.
            median
        } else {
            bent(mean, [first, middle, newest])
        };
        // Two looks may both have met the peak of a step: then its floor seems to rise, and its peak does not.
        let peaks = last.windows(2).filter_map(|pair| peak_rate(pair[0], pair[1])).fold(0.0, f64::max);
        real.then(|| course.min(peaks * PEAKS_AGREE))
    }

    /// Bytes a second by floors of four quarters that rise, with the highest peak in the last.
    fn slow(&self, laps: &[Lap]) -> Option<f64> {
        let quarters = quarters(laps)?;
        let [first, .., newest] = quarters;
        let rises = quarters.windows(2).all(|pair| pair[1].low - pair[0].low > self.noise);
        let new_ground = newest.fresh && newest.high >= self.record - self.noise;
        if !rises || !new_ground {
            return None;
        }
        Some(bent(rate(first, newest)?, between(&quarters, rate)?))
    }

    /// Bytes a second by the peaks of four quarters, each the highest so far. Where a step takes and gives back much, looks
    /// meet its floor by chance, but the kernel keeps its peak.
    fn peaks(&self, laps: &[Lap]) -> Option<f64> {
        let quarters = quarters(laps)?;
        let rises = quarters.windows(2).all(|pair| pair[1].high - pair[0].high > self.noise);
        let all_fresh = quarters.iter().all(|quarter| quarter.fresh);
        let [first, .., newest] = quarters;
        if !rises || !all_fresh {
            return None;
        }
        Some(bent(peak_rate(first, newest)?, between(&quarters, peak_rate)?))
    }
}

/// The newest laps as four of the same number.
fn quarters(laps: &[Lap]) -> Option<[Lap; 4]> {
    if laps.len() < LEAST_SLOW {
        return None;
    }
    let size = laps.len() / 4;
    let newest = laps[laps.len() - 4 * size..].chunks(size);
    let quarters: Vec<Lap> = newest.filter_map(|quarter| quarter.iter().copied().reduce(merged)).collect();
    quarters.try_into().ok()
}

/// The mean, which noise moves least, unless the course bends: every rate lower than the one before.
fn bent(mean: f64, [first, middle, newest]: [f64; 3]) -> f64 {
    if newest < mean * BENT && newest < middle && middle < first { newest } else { mean }
}

/// The rates between four laps.
fn between(laps: &[Lap; 4], rate: fn(Lap, Lap) -> Option<f64>) -> Option<[f64; 3]> {
    Some([rate(laps[0], laps[1])?, rate(laps[1], laps[2])?, rate(laps[2], laps[3])?])
}

/// How fast the floor rose from one lap to another.
fn rate(from: Lap, to: Lap) -> Option<f64> {
    let seconds = to.low_at - from.low_at;
    (seconds > 0.0).then(|| (to.low - from.low) / seconds)
}

/// How fast the peak rose from one lap to another.
fn peak_rate(from: Lap, to: Lap) -> Option<f64> {
    let seconds = to.high_at - from.high_at;
    (seconds > 0.0).then(|| (to.high - from.high) / seconds)
}

fn merged(first: Lap, second: Lap) -> Lap {
    let (low, low_at) =
        if second.low < first.low { (second.low, second.low_at) } else { (first.low, first.low_at) };
    let (high, high_at) =
        if second.high > first.high { (second.high, second.high_at) } else { (first.high, first.high_at) };
    Lap {
        begin: first.begin,
        end: second.end,
        steps: first.steps + second.steps,
        low,
        low_at,
        high,
        high_at,
        looks: first.looks.saturating_add(second.looks),
        fresh: first.fresh || second.fresh,
    }
}
