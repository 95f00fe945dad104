//! Answers that could not be sent yet: what was known of a run at each moment of an outage.
//!
//! An answer can't be made up later, because by then more is known. So each is kept as it was given until a receiver has
//! it. An outage of any length takes bounded memory: beyond a day every other moment is left out.

use super::history::{Labels, Series};
use std::collections::BTreeMap;

/// Moments kept of a series: a day of one every ten seconds.
const MOST_MOMENTS: usize = 8640;

#[derive(Debug, Default)]
pub(super) struct Unsent {
    all: BTreeMap<Labels, Vec<(i64, f64)>>,
}

impl Unsent {
    /// Keeps the answers of a moment; of two for the same moment the later one holds.
    pub(super) fn add(&mut self, answers: Vec<Series>) {
        for Series { labels, samples } in answers {
            let kept = self.all.entry(labels).or_default();
            for (time, value) in samples {
                match kept.last_mut() {
                    Some(last) if last.0 >= time => last.1 = value,
                    Some(_) | None => kept.push((time, value)),
                }
            }
            if kept.len() > MOST_MOMENTS {
                let mut odd = false;
                kept.retain(|_| {
                    odd = !odd;
                    odd
                });
            }
        }
    }

    pub(super) fn series(&self) -> Vec<Series> {
        let all = self.all.iter();
        all.map(|(labels, samples)| Series { labels: labels.clone(), samples: samples.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(time: i64, value: f64) -> Vec<Series> {
        vec![Series { labels: vec![("__name__".to_owned(), "a".to_owned())], samples: vec![(time, value)] }]
    }

    #[test]
    fn every_moment_of_an_outage_is_kept_once() {
        let mut unsent = Unsent::default();
        for (time, value) in [(10, 1.0), (20, 2.0), (20, 2.5), (30, 3.0)] {
            unsent.add(answer(time, value));
        }
        let [only] = &unsent.series()[..] else { panic!("one series") };
        assert_eq!(only.samples, [(10, 1.0), (20, 2.5), (30, 3.0)]);
    }

    #[test]
    fn an_endless_outage_takes_bounded_memory_and_keeps_its_ends() {
        let mut unsent = Unsent::default();
        for time in 0..10 * MOST_MOMENTS as i64 {
            unsent.add(answer(time, 1.0));
        }
        let kept = &unsent.series()[0].samples;
        assert!(kept.len() <= MOST_MOMENTS && kept.len() > MOST_MOMENTS / 4, "{}", kept.len());
        assert_eq!(kept[0].0, 0);
        assert!(kept.last().unwrap().0 > 10 * MOST_MOMENTS as i64 - 100, "{:?}", kept.last());
    }
}
