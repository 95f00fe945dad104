//! How fast memory grows, step by step, as far as a guard may believe it.
//!
//! Time is cut into laps: a lap is at least one step (or a few looks, where no steps are known) with the lowest and the
//! highest memory in it; the time of evaluations and saves is left out. Growth is believed when floors rise lap after lap **and** the peaks go where memory has not been
//! before: a saw-tooth, a spike that comes back and a warm-up that bends are none of it. Not here: what follows from it.

use super::Look;
use super::course::Course;
use super::jumps::without_jump;
use super::learnt::Found;
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
/// The floor may rise so many times as fast as the peak.
const PEAKS_AGREE: f64 = 1.5;
/// A rise is sure beyond so many times what floors scatter: two standard errors of a difference of two.
const SURELY: f64 = 2.8;
/// Scatter is known by so many laps ...
const SCATTER_LAPS: usize = 16;
/// ... and the middle bend of three floors is so many times as large, if they scatter like a bell.
const BEND_OF_SCATTER: f64 = 1.65;
/// A floor that falls by so many times the noise is lower.
const FELL: f64 = 50.0;
/// So many laps after a fall nothing is believed.
const FALL_LAPS: usize = 3;
/// Growth that was seen is believed for so many laps that do not show it.
const BELIEVED_LAPS: usize = 8;
/// So many looks in a step meet its floor and its peak.
const DENSE_LOOKS: u32 = 12;
/// Looks miss the floor of a step by about this part of what it takes and gives back.
const MISSED_PART: f64 = 0.1;
/// A step surely lasts this part of the shortest of late.
const LASTS_PART: f64 = 0.8;
/// Rises of so many laps tell what a step may add at most.
const CLUMP_LAPS: usize = 14;
/// ... if so many looks were taken in each.
const CLUMP_LOOKS: u32 = 6;
/// A rise that is so many times the next largest is a jump.
const JUMP: f64 = 1.5;
/// A look is near the end of a step within this part of it.
const NEAR_PART: f64 = 0.125;
/// A step takes the mean of so many laps.
const MEAN_LAPS: usize = 16;
/// What steps hold when they end is known by so many laps.
const HELD_LAPS: usize = 8;
/// A step is taken to last at least this long, in seconds.
const SHORTEST: f64 = 1e-3;
/// Peaks of so many laps count as the peak of now.
const PEAK_LAPS: usize = 3;
/// What steps give back of their peaks is known by so many laps.
const GIVEN_BACK_LAPS: usize = 9;
/// Not every look meets the floor of a step: so many looks tell it ...
const FLOOR_LOOKS: u32 = 24;
/// ... of so many laps at most.
const FLOOR_LAPS: usize = 12;
/// Memory fell when it is lower than in all of so many laps.
const FELL_LAPS: usize = 4;

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
    /// Its first look.
    first: f64,
    first_at: f64,
    /// The last.
    last: f64,
    last_at: f64,
    looks: u32,
    /// Its peak is the highest of this life.
    fresh: bool,
    /// ... and the kernel told of it: no look has to have met it.
    told: bool,
}

/// Growth that is believed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// Bytes a step.
    pub(super) per_step: f64,
    /// How long a step takes on the mean.
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
    noise: f64,
    steps_known: bool,
    /// When the newest step ended.
    stepped_at: Option<f64>,
    course: Course,
    /// Worked out when a lap ends.
    growth: Option<Growth>,
    /// Laps since then that did not show it.
    unconfirmed: usize,
    /// Laps since memory fell.
    since_fall: usize,
    /// Worked out when a lap ends, too: see `ends_at`, `clumped` and `mean_step`.
    held: f64,
    lasting: Vec<f64>,
    mean_step: Option<f64>,
    /// What steps of the life before usually gave back of their peaks.
    gives_back: f64,
}

impl Laps {
    /// Those of the next life. The kernel tells of a peak only where none was higher before, so that it tells of none in a
    /// life after the first: what a step takes for a moment between two looks is known from the life before.
    pub(super) fn of_next_life(&self) -> Self {
        let newest: Vec<&Lap> = self.recent.iter().rev().take(GIVEN_BACK_LAPS).collect();
        // The newest come first.
        let told = newest.windows(2).filter(|pair| pair[1].told);
        let mut given_back: Vec<f64> = told.map(|pair| (pair[1].high - pair[0].low).max(0.0)).collect();
        given_back.sort_by(f64::total_cmp);
        // A spike is told, too; steps that grow are told of one after another.
        let usual = given_back.get(given_back.len() / 2).filter(|_| given_back.len() * 2 > newest.len());
        Self { gives_back: usual.copied().unwrap_or(self.gives_back), ..Self::default() }
    }

    /// A look while the job trains.
    pub(super) fn look(&mut self, look: &Look) {
        self.noise = look.limit * NOISE_PART;
        self.course.look(look.seconds, look.used);
        let begin = self.stepped_at.or(self.recent.back().map(|lap| lap.end)).unwrap_or(look.seconds);
        let lap = self.open.get_or_insert(Lap {
            begin,
            end: look.seconds,
            steps: 0.0,
            low: look.used,
            low_at: look.seconds,
            high: look.used,
            high_at: look.seconds,
            first: look.used,
            first_at: look.seconds,
            last: look.used,
            last_at: look.seconds,
            looks: 0,
            fresh: false,
            told: false,
        });
        (lap.end, lap.last, lap.last_at) = (look.seconds, look.used, look.seconds);
        if look.used < lap.low {
            (lap.low, lap.low_at) = (look.used, look.seconds);
        }
        if look.high > lap.high {
            (lap.high, lap.high_at) = (look.high, look.seconds);
            lap.told = look.high > look.used;
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
            let gives_back = self.gives_back;
            *self = Self { steps_known: true, noise: self.noise, gives_back, ..Self::default() };
            return;
        }
        self.stepped_at = Some(at);
        self.course.stepped(at, self.growth.map(|growth| growth.per_step));
        if let Some(lap) = &mut self.open {
            lap.steps += steps;
            lap.end = at;
            if lap.looks >= LEAST_LOOKS {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        let Some(mut lap) = self.open.take() else { return };
        lap.fresh = lap.high > self.record + self.noise / 4.0;
        self.record = self.record.max(lap.high);
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(lap);
        self.gather(lap);
        self.since_fall = if self.fell() { 0 } else { self.since_fall + 1 };
        self.mean_step = self.work_out_step();
        (self.held, self.lasting) = (self.work_out_held(), self.work_out_lasting());
        if self.since_fall < FALL_LAPS {
            // It fell: whatever rose before is given back, and what the laps before it show is past.
            self.growth = None;
            return;
        }
        match self.work_out() {
            Some(growth) => (self.growth, self.unconfirmed) = (Some(growth), 0),
            // Looks that miss a peak or a floor make a lap that shows nothing: growth is believed a little longer.
            None if self.unconfirmed < BELIEVED_LAPS => self.unconfirmed += 1,
            None => self.growth = None,
        }
    }

    /// Whether the newest lap is lower than all of the few before it: as many as it takes to have met a floor.
    fn fell(&self) -> bool {
        let low = self.recent.back().map_or(0.0, |lap| lap.low);
        let met = floor_laps(self.recent.iter().rev().skip(1));
        let few = self.recent.iter().rev().skip(1).take(FELL_LAPS);
        let before = met.chain(few).map(|lap| lap.low).reduce(f64::min);
        before.is_some_and(|before| low < before - self.noise * FELL)
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

    /// The highest in steps that have ended, and since then, when so much is taken.
    pub(super) fn highs(&self, used: f64) -> (f64, f64) {
        let laps = PEAK_LAPS.min(self.since_fall);
        let seen = self.recent.iter().rev().take(laps).map(|lap| lap.high).fold(0.0, f64::max);
        let missed = self.floor(used).map_or(0.0, |floor| floor + self.gives_back);
        (seen.max(missed), self.open.map_or(0.0, |lap| lap.high))
    }

    /// The floor when the last step ended: as it was seen of late, with what growth had added by then, but never above
    /// what is taken now.
    pub(super) fn floor(&self, used: f64) -> Option<f64> {
        let lowest = || self.lowest(self.floor_laps());
        Some(self.around_end().or_else(lowest)?.min(used))
    }

    /// The lowest of some laps, with what growth had added when the last step ended.
    fn lowest<'a>(&self, laps: impl Iterator<Item = &'a Lap>) -> Option<f64> {
        let rate = self.growth.map_or(0.0, |growth| growth.per_step / growth.step_seconds);
        let ended = self.stepped_at.or(self.recent.back().map(|lap| lap.end))?;
        laps.map(|lap| lap.low + rate * (ended - lap.low_at).max(0.0)).reduce(f64::min)
    }

    /// The floor by the looks just before and after the newest step ended, if there were some: it can't be higher.
    fn around_end(&self) -> Option<f64> {
        let (last, open) = (self.recent.back()?, self.open?);
        let near = self.mean_step? * NEAR_PART;
        let close = open.first_at - open.begin <= near || last.end - last.last_at <= near;
        close.then(|| open.low.min(last.last))
    }

    /// The floor that a save finds, when so much is taken: what a step takes and gives back is no part of it. A level that
    /// memory has just risen to is, though floors of late were lower.
    pub(super) fn found(&self, used: f64) -> Found {
        let newest = self.recent.iter().rev().take(HELD_LAPS);
        self.found_within(used, second_largest(newest.map(|lap| lap.high - lap.low)) + self.noise)
    }

    /// The floor that an evaluation finds. It is compared with those that others find, so that doubt counts for more: few
    /// looks meet the floor or the peak of their own step.
    pub(super) fn found_by_eval(&self, used: f64) -> Found {
        self.found_within(used, self.spread() + self.noise)
    }

    fn found_within(&self, used: f64, usual: f64) -> Found {
        let floor = self.floor(used).filter(|floor| used - floor <= usual).unwrap_or(used);
        Found { floor, play: usual + self.growth.map_or(0.0, |growth| growth.per_step) }
    }

    /// How far all that was taken of late lies apart, but for what growth added: looks miss floors and peaks.
    fn spread(&self) -> f64 {
        let rate = self.growth.map_or(0.0, |growth| growth.per_step / growth.step_seconds);
        let highs = self.recent.iter().map(|lap| lap.high - rate * lap.high_at);
        let lows = self.recent.iter().map(|lap| lap.low - rate * lap.low_at);
        let seen = highs.fold(f64::NEG_INFINITY, f64::max) - lows.fold(f64::INFINITY, f64::min);
        seen.max(0.0) * (1.0 + 2.0 * MISSED_PART)
    }

    /// What a step usually takes and gives back: the middle of those of late.
    pub(super) fn usual_swing(&self) -> f64 {
        let mut swings: Vec<f64> = self.recent.iter().map(|lap| lap.high - lap.low).collect();
        swings.sort_by(f64::total_cmp);
        swings.get(swings.len() / 2).copied().unwrap_or(0.0)
    }

    /// Whether memory is below every floor of late: whatever rose before is given back.
    pub(super) fn is_below(&self, used: f64) -> bool {
        let lowest = self.floor_laps().map(|lap| lap.low).fold(f64::INFINITY, f64::min);
        used < lowest - self.noise
    }

    /// The newest laps, as many as it takes to have met a floor.
    fn floor_laps(&self) -> impl Iterator<Item = &Lap> {
        floor_laps(self.recent.iter().rev())
    }

    /// What is taken when a step ends, at most: some steps hold more than others, and give it back in the next.
    pub(super) fn ends_at(&self, used: f64) -> Option<f64> {
        self.ends_from(self.floor(used)?)
    }

    /// ... at least: few looks meet the end of a step, and floors of late may have been lower.
    pub(super) fn surely_ends_at(&self, used: f64) -> Option<f64> {
        let lowest = self.lowest(self.floor_laps())?;
        self.ends_from(self.floor(used)?.min(lowest))
    }

    fn ends_from(&self, floor: f64) -> Option<f64> {
        // The floor after it has grown by then.
        let grown = self.growth.map(|growth| growth.per_step).filter(|per_step| self.held > *per_step);
        let held = self.held + grown.unwrap_or(0.0);
        // The last step may be one of them: then the one before it is not.
        let lowest = self.lowest(self.recent.iter().rev().take(2))?;
        Some(floor.max(lowest.min(floor) + held))
    }

    fn work_out_held(&self) -> f64 {
        let newest = self.recent.iter().rev().take(HELD_LAPS.min(self.since_fall));
        let newest: Vec<&Lap> = newest.filter(|lap| lap.looks >= CLUMP_LOOKS).collect();
        // The newest come first. What the looks before and after the end of a step saw, it held no more.
        let held = |pair: &[&Lap]| pair[1].last.min(pair[0].first) - pair[1].low.max(pair[0].low);
        newest.windows(2).map(held).fold(0.0, f64::max)
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

    /// How long a step takes on the mean of late.
    fn work_out_step(&self) -> Option<f64> {
        let laps = || self.recent.iter().rev().take(MEAN_LAPS).filter(|lap| lap.steps > 0.0);
        let (seconds, steps) = laps().fold((0.0, 0.0), |(seconds, steps), lap| {
            (seconds + (lap.end - lap.begin).max(0.0), steps + lap.steps)
        });
        (steps > 0.0).then(|| seconds / steps)
    }

    /// How long the step under way may surely go on, where steps are known: less than the shortest of late.
    pub(super) fn step_lasts(&self, seconds: f64) -> Option<f64> {
        let each = self.recent.iter().filter(|lap| lap.steps > 0.0);
        let shortest = each.map(|lap| (lap.end - lap.begin).max(0.0) / lap.steps).reduce(f64::min)?;
        Some(shortest * LASTS_PART - self.course.since(seconds)?)
    }

    /// Whether so many looks were taken in the newest step that they met its floor and its peak.
    pub(super) fn is_dense(&self) -> bool {
        self.recent.back().is_some_and(|lap| lap.looks >= DENSE_LOOKS)
    }

    /// Whether the step under way surely adds little, though steps of late added much.
    pub(super) fn pauses(&self) -> bool {
        self.growth.is_some_and(|growth| self.course.pauses(growth.per_step))
    }

    /// What so many steps may add, where not every step adds the same: the largest rises of late that lasted. The very
    /// largest may have been a jump, if it stands out from the others.
    pub(super) fn clumped(&self, steps: f64) -> f64 {
        let jump = matches!(self.lasting[..], [first, second, ..] if first > second * JUMP)
            || self.lasting.len() < 2;
        self.lasting.iter().skip(usize::from(jump)).take(steps.ceil() as usize).sum()
    }

    /// Rises of late that lasted, a step, the largest first.
    fn work_out_lasting(&self) -> Vec<f64> {
        let newest: Vec<&Lap> = self.recent.iter().rev().take(CLUMP_LAPS.min(self.since_fall)).collect();
        let low = |lap: &&Lap| lap.low;
        // The newest come first: the lowest of three laps above the highest of the three before them.
        let lasting = |six: &[&Lap]| {
            let after = six[..3].iter().map(low).fold(f64::INFINITY, f64::min);
            let before = six[3..].iter().map(low).fold(0.0, f64::max);
            let missed = MISSED_PART * (six[2].high - six[2].low);
            ((after - before - missed) / six[2].steps.max(1.0)).max(0.0)
        };
        // Few looks meet a floor by chance: then it seems to rise and does not.
        let met = |six: &&[&Lap]| six.iter().all(|lap| lap.looks >= CLUMP_LOOKS);
        let mut rises: Vec<f64> = newest.windows(6).filter(met).map(lasting).collect();
        rises.sort_by(|one, other| other.total_cmp(one));
        rises
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
        let step_seconds = self.mean_step?.max(SHORTEST);
        Some(Growth { per_step: rate * step_seconds, step_seconds })
    }

    /// Bytes a second by three rises in a row, each to where memory has not been before.
    fn quick(&self, laps: &[Lap]) -> Option<f64> {
        let last: &[Lap; 4] = laps.last_chunk()?;
        let real = last[1..].iter().all(|lap| lap.fresh)
            && last.windows(2).all(|pair| pair[1].low - pair[0].low > self.noise);
        let course = without_jump(rate(last[0], last[3])?, between(last, rate)?)?;
        let surely = 1.0 - scatter(laps) * SURELY / (last[3].low - last[0].low);
        // Two looks may both have met the peak of a step: then its floor seems to rise, and its peak does not. And a climb may
        // take two laps: then floors rise twice, and the peak once.
        let peaks = without_jump(peak_rate(last[0], last[3])?, between(last, peak_rate)?)?;
        (real && surely > 0.0).then(|| (course * surely).min(peaks * PEAKS_AGREE))
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
        match without_jump(rate(first, newest)?, between(&quarters, rate)?) {
            None => self.slow(after_jump(laps, |lap| lap.low)),
            course => course,
        }
    }

    /// Bytes a second by the peaks of four quarters, each the highest so far. Where a step takes and gives back much, looks
    /// meet its floor by chance, but the kernel keeps its peak.
    fn peaks(&self, laps: &[Lap]) -> Option<f64> {
        let quarters = quarters(laps)?;
        let rises = quarters.windows(2).all(|pair| pair[1].high - pair[0].high > self.noise);
        let all_fresh = quarters.iter().all(|quarter| quarter.fresh);
        let [first, .., newest] = quarters;
        // Peaks that rise by more than floors and what a step usually takes and gives back are of spikes.
        let agree = newest.high - first.high <= newest.low - first.low + self.usual_swing();
        if !rises || !all_fresh || !agree {
            return None;
        }
        match without_jump(peak_rate(first, newest)?, between(&quarters, peak_rate)?) {
            None => self.peaks(after_jump(laps, |lap| lap.high)),
            course => course,
        }
    }
}

/// How far floors lie from a straight course before the last few laps, by the middle of what they bend each time.
fn scatter(laps: &[Lap]) -> f64 {
    let before = &laps[..laps.len().saturating_sub(3)];
    let bend = |three: &[Lap]| (three[2].low - 2.0 * three[1].low + three[0].low).abs();
    let mut bends: Vec<f64> = before.windows(3).rev().take(SCATTER_LAPS).map(bend).collect();
    bends.sort_by(f64::total_cmp);
    bends.get(bends.len() / 2).map_or(0.0, |middle| middle / BEND_OF_SCATTER)
}

/// Of laps, the newest first, as many as it takes to have met a floor.
fn floor_laps<'a>(laps: impl Iterator<Item = &'a Lap>) -> impl Iterator<Item = &'a Lap> {
    let mut looks = 0;
    laps.take(FLOOR_LAPS).take_while(move |lap| {
        let before = looks;
        looks += lap.looks;
        before < FLOOR_LOOKS
    })
}

/// The largest but one: the largest may be a jump.
fn second_largest(numbers: impl Iterator<Item = f64>) -> f64 {
    let (_, second) =
        numbers.fold(
            (0.0, 0.0),
            |(first, second), number: f64| {
                if number > first { (number, first) } else { (first, number.max(second)) }
            },
        );
    second
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

/// The laps after the largest rise from one to the next.
fn after_jump(laps: &[Lap], level: fn(&Lap) -> f64) -> &[Lap] {
    let rise = |at: &usize| level(&laps[*at]) - level(&laps[*at - 1]);
    let jump = (1..laps.len()).max_by(|one, other| rise(one).total_cmp(&rise(other)));
    &laps[jump.unwrap_or(laps.len())..]
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
        first: first.first,
        first_at: first.first_at,
        last: second.last,
        last_at: second.last_at,
        looks: first.looks.saturating_add(second.looks),
        fresh: first.fresh || second.fresh,
        told: first.told || second.told,
    }
}
