//! Whether the step that is under way grows like the one before it, moment for moment.
//!
//! What a step takes and gives back makes its own curve; laid over the curve of the step before, only what was kept in
//! between is left. So the end of a fill shows in the middle of the first step that adds nothing, a step before floors
//! tell of it. Pure arithmetic on a clock that stands still while the job does not train.

/// Looks kept of a step; of more every second is left out.
const MOST: usize = 64;
/// So many looks of the step under way are compared, the newest.
const COMPARED: usize = 4;
/// Only this part of the step before is compared with: steps are not equally long, and one may keep what it keeps at its end.
const COMPARED_PART: f64 = 0.75;
/// Where a step takes and gives back so many times what it keeps, it is elsewhere on its curve at the same time.
const STEEP: f64 = 2.0;
/// The peak of a step is past when memory fell from it by this part of what a step takes and gives back.
const PAST_PART: f64 = 0.2;
/// A step pauses when it surely keeps less than this part of what steps kept of late ...
const PAUSED_PART: f64 = 0.5;
/// ... where surely means by so many standard errors.
const SURE: f64 = 2.0;

/// So many steps that surely paused make it likely that the next does.
const PAUSED_STEPS: usize = 2;

/// Memory at a time since the step began.
type At = (f64, f64);

/// The step under way and the one before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    began: Option<f64>,
    now: Vec<At>,
    before: Vec<At>,
    /// How much more the step under way holds than the one before it, at most, as it was last known: by looks at the same
    /// time, and by the peaks of both.
    by_time: Option<f64>,
    by_peak: Option<f64>,
    /// So many steps before it surely paused.
    paused: usize,
}

impl Course {
    pub(super) fn look(&mut self, seconds: f64, used: f64) {
        let Some(began) = self.began else { return };
        if self.now.len() >= MOST {
            let mut at = 0;
            self.now.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        self.now.push((seconds - began, used));
        self.by_time = self.rise_by_time().or(self.by_time);
        self.by_peak = self.rise_by_peak().or(self.by_peak);
    }

    /// A step ended, where steps added so much of late.
    pub(super) fn stepped(&mut self, at: f64, per_step: Option<f64>) {
        let paused = per_step.is_some_and(|per_step| self.surely_pauses(per_step));
        self.paused = if paused { self.paused + 1 } else { 0 };
        std::mem::swap(&mut self.now, &mut self.before);
        self.now.clear();
        (self.began, self.by_time, self.by_peak) = (Some(at), None, None);
    }

    /// How long the step has been under way at this time.
    pub(super) fn since(&self, seconds: f64) -> Option<f64> {
        Some((seconds - self.began?).max(0.0))
    }

    /// Whether this step keeps less than half of what steps kept of late: surely, or like the last few, which surely did.
    pub(super) fn pauses(&self, per_step: f64) -> bool {
        self.paused >= PAUSED_STEPS || self.surely_pauses(per_step)
    }

    fn surely_pauses(&self, per_step: f64) -> bool {
        let gives_back = self.swing() - per_step;
        let by_time = self.by_time.filter(|_| gives_back <= per_step * STEEP);
        by_time.or(self.by_peak).is_some_and(|rise| rise < per_step * PAUSED_PART)
    }

    /// What the step before took and gave back, with what it kept.
    fn swing(&self) -> f64 {
        let used = self.before.iter().map(|(_, used)| *used);
        top(&self.before).unwrap_or(0.0) - used.fold(f64::INFINITY, f64::min)
    }

    fn rise_by_time(&self) -> Option<f64> {
        let newest = &self.now[self.now.len().checked_sub(COMPARED)?..];
        let rises: Option<Vec<f64>> =
            newest.iter().map(|(since, used)| Some(used - self.then(*since)?)).collect();
        let (rises, count) = (rises?, COMPARED as f64);
        let mean = rises.iter().sum::<f64>() / count;
        // Where this step adds nothing, what the step before added shrinks the difference from look to look: by a line.
        let middle = (count - 1.0) / 2.0;
        let off = |at: usize| at as f64 - middle;
        let wide: f64 = (0..COMPARED).map(|at| off(at).powi(2)).sum();
        let slope = rises.iter().enumerate().map(|(at, rise)| off(at) * rise).sum::<f64>() / wide;
        let slope = slope.min(0.0);
        let left = |(at, rise): (usize, &f64)| (rise - mean - slope * off(at)).powi(2);
        let spread = rises.iter().enumerate().map(left).sum::<f64>() / (count - 2.0);
        let error = (spread * (1.0 / count + middle.powi(2) / wide)).sqrt();
        Some(mean + slope * middle + SURE * error)
    }

    /// By the peaks, once that of this step is past; looks miss it by about the way between two of them.
    fn rise_by_peak(&self) -> Option<f64> {
        let (now, before) = (top(&self.now)?, top(&self.before)?);
        let (_, newest) = self.now.last()?;
        let swing = self.swing();
        let missed = 2.0 * swing / self.now.len() as f64;
        (now - newest > swing * PAST_PART).then_some(now - before + missed)
    }

    /// Memory in the step before, as long after its beginning.
    fn then(&self, since: f64) -> Option<f64> {
        let (lasted, _) = self.before.last()?;
        let after = self.before.iter().position(|(at, _)| *at >= since)?;
        let (end, high) = self.before[after];
        let (begin, low) = *self.before.get(after.checked_sub(1)?)?;
        let part = if end > begin { (since - begin) / (end - begin) } else { 1.0 };
        (since <= lasted * COMPARED_PART).then_some(low + (high - low) * part)
    }
}

fn top(looks: &[At]) -> Option<f64> {
    looks.iter().map(|(_, used)| *used).reduce(f64::max)
}
