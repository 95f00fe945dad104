//! What processes of one job leave each other of the memory there is, and which of them hide what another one does.
//!
//! Each is judged by itself first; then again with what the others will take. Not here: what is held now (see `live`).

use crate::budget::COUNTS;
use crate::crew::Subject;
use crate::live::LiveJudge;
use crate::phrases::size;
use crate::run::{Judged, TO_THE_END};
use crate::verdict::Group;
use lowtide_model::{ProcKey, Role};

/// What others will still take counts from this part of all that is needed on.
const AHEAD_COUNTS: f64 = 0.01;
/// The growth of a process counts in the forecast of another one from this part of that one's life on.
const LASTING: f64 = 0.5;

/// How fast a living process grows, and for how long it has lived.
#[derive(Clone, Copy)]
struct Pace {
    by_steps: bool,
    bytes_per_step: f64,
    age: f64,
}

impl Pace {
    /// Whether this pace may be drawn as far ahead as that of `other`: a worker that is made anew again and again begins each
    /// of its short lives by growing fast.
    fn goes_on_beside(&self, other: &Self) -> bool {
        self.by_steps == other.by_steps && self.age >= LASTING * other.age
    }
}

/// What others do that share a limit: how much they grow by in one x, and what those that will settle still take.
#[derive(Clone, Copy, Default)]
pub(crate) struct Others {
    pub(crate) pace: f64,
    pub(crate) ahead: f64,
}

/// Parts ranks that were judged as one, where one of them leaks and others do not, or all together hide it.
pub(crate) fn part_ranks(each: &mut Vec<Judged>, judge: impl Fn(&Subject, Others) -> Option<Judged>) {
    let apart = |judged: &Judged| {
        if judged.role != Role::Trainer || judged.subject.is_one() {
            return None;
        }
        let alone = judged.subject.members.iter().map(|key| Subject::one(*key));
        let alone: Vec<Judged> = alone.filter_map(|one| judge(&one, Others::default())).collect();
        let any = |group: fn(Group) -> bool| alone.iter().any(|one| group(one.verdict.group));
        let hidden =
            judged.verdict.group != Group::Leak || any(|group| matches!(group, Group::Bounded | Group::Flat));
        (any(|group| group == Group::Leak) && hidden).then_some(alone)
    };
    *each = std::mem::take(each)
        .into_iter()
        .flat_map(|judged| apart(&judged).unwrap_or_else(|| vec![judged]))
        .collect();
}

impl LiveJudge {
    /// Processes that grow side by side come to their limit together, and sooner than each by itself; and what others will still take
    /// before they settle is not left for any of them.
    pub(crate) fn share_room(&self, each: &mut [Judged], judge: impl Fn(&Subject, Others) -> Option<Judged>) {
        let lives = |key: &ProcKey| {
            let died = self.processes.get(key).and_then(|process| process.died);
            died.is_none_or(|died| died.seconds() + TO_THE_END >= self.now)
        };
        let age = |key: &ProcKey| {
            let born = self.processes.get(key).map_or(0.0, |process| process.born.seconds());
            (self.now - born).max(0.0)
        };
        let pace = |judged: &Judged| {
            let forecast = judged.verdict.forecast.filter(|_| judged.grows && lives(&judged.key))?;
            let bytes_per_step = judged.verdict.floor.bytes_per_step;
            Some(Pace { by_steps: forecast.at_step.is_some(), bytes_per_step, age: age(&judged.key) })
        };
        let ahead = |judged: &Judged| {
            let takes = judged.grows && lives(&judged.key);
            if takes { judged.verdict.ahead_bytes } else { 0.0 }
        };
        let paces: Vec<Option<Pace>> = each.iter().map(pace).collect();
        let aheads: Vec<f64> = each.iter().map(ahead).collect();
        let all: f64 = aheads.iter().sum();
        for ((judged, pace), own_ahead) in each.iter_mut().zip(&paces).zip(&aheads) {
            let own = pace.map_or(0.0, |pace| pace.bytes_per_step);
            let beside = |own: Pace| paces.iter().flatten().filter(move |other| other.goes_on_beside(&own));
            let together: f64 =
                pace.map_or(0.0, |own| beside(own).map(|other| other.bytes_per_step).sum::<f64>());
            let others = Others { pace: together - own, ahead: all - own_ahead };
            let faster = others.pace > COUNTS * own;
            let more = others.ahead > AHEAD_COUNTS * judged.verdict.outcome.needs_bytes.unwrap_or(0.0);
            if (faster || more && lives(&judged.key))
                && let Some(again) = judge(&judged.subject, others)
            {
                *judged = again;
                judged.verdict.evidence.extend(faster.then(|| {
                    format!(
                        "others grow as well, by {} together where this one grows by {}: they share what is left",
                        size(others.pace),
                        size(own)
                    )
                }));
            }
        }
    }
}
