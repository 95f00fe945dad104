//! How memory moves at this very moment: the last few looks, whatever the job does.

use super::Look;
use std::collections::VecDeque;

/// Looks that tell how memory moves at this moment.
const MOMENT: usize = 8;
/// Fewer looks that rise are no rush.
const LEAST_RISES: usize = 4;
/// The limit is next when so many more rises like the largest of late reach it: the next look may come late.
const RISES_LEFT: f64 = 2.0;

/// The last looks of one life.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    looks: VecDeque<Look>,
}

impl Moment {
    pub(super) fn take(&mut self, look: Look) {
        if self.looks.len() >= MOMENT {
            self.looks.pop_front();
        }
        self.looks.push_back(look);
    }

    pub(super) fn newest(&self) -> Option<&Look> {
        self.looks.back()
    }

    /// The time between the last two looks.
    pub(super) fn look_seconds(&self) -> f64 {
        self.pairs().next().map_or(0.0, |(before, last)| last.seconds - before.seconds)
    }

    /// Looks with the ones after them, the newest first.
    fn pairs(&self) -> impl Iterator<Item = (&Look, &Look)> {
        self.looks.iter().rev().skip(1).zip(self.looks.iter().rev())
    }

    /// Bytes a second between the last two looks, if it rose.
    pub(super) fn newest_rate(&self) -> Option<f64> {
        let (before, last) = self.pairs().next()?;
        Some((last.used - before.used) / (last.seconds - before.seconds)).filter(|rate| *rate > 0.0)
    }

    /// Bytes a second over the last looks in which it rose without a pause.
    pub(super) fn rush(&self) -> Option<f64> {
        let last = self.looks.back()?;
        let rising: Vec<&Look> =
            self.pairs().take_while(|(one, next)| next.used > one.used).map(|(one, _)| one).collect();
        let first = rising.last().filter(|_| rising.len() >= LEAST_RISES)?;
        Some((last.used - first.used) / (last.seconds - first.seconds))
    }

    /// Bytes a second over all of them, pauses included, if it rose.
    pub(super) fn mean_rate(&self) -> Option<f64> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let seconds = last.seconds - first.seconds;
        (seconds > 0.0).then(|| (last.used - first.used) / seconds).filter(|rate| *rate > 0.0)
    }

    /// Whether it rises, and two more rises like the largest since this time reach the limit.
    pub(super) fn limit_is_next(&self, since: f64) -> bool {
        let pairs = self.pairs().filter(|(before, _)| before.seconds >= since);
        let largest = pairs.map(|(before, last)| last.used - before.used).fold(0.0, f64::max);
        let left = self.looks.back().map(|look| look.limit - look.used);
        self.mean_rate().is_some() && left.is_some_and(|left| left <= largest * RISES_LEFT)
    }
}
