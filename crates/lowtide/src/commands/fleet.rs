//! Which of several runs differs: ranks of one job, or the recordings of a folder.
//!
//! Ranks of one job do the same work, so each is held against the middle of all. Not here: why one differs; its own
//! answer says that.

use super::subject::{Answer, What, rank_of};
use lowtide_model::{ByteDelta, Bytes};
use lowtide_verdict::Group;
use std::collections::BTreeMap;

/// A run differs when it is off the middle by this many times the usual distance from it ...
const FAR: f64 = 4.0;
/// ... and by this part of the middle itself, so that equal ranks are not told apart by crumbs.
const WORTH: f64 = 0.1;

/// One sentence on which run differs, or that none does. `None` for runs that need not be alike.
pub(crate) fn who_differs(answers: &[Answer], folder: bool) -> Option<String> {
    let ranked = answers.iter().all(|answer| rank(answer).is_some());
    if !folder && !ranked {
        return None;
    }
    if let Some(words) = other_group(answers) {
        return Some(words);
    }
    let ends: Vec<f64> = answers.iter().map(|answer| answer.run.main.floor.end_bytes).collect();
    let growths: Vec<f64> = answers.iter().map(grown).collect();
    let (end, growth) = (middle(&ends), middle(&growths));
    let far_growth = farthest(&growths, end.abs());
    if let Some(at) = far_growth {
        return Some(format!(
            "{} differs: its floor moved by {}, that of the others by {}",
            name(&answers[at]),
            delta(growths[at]),
            delta(growth)
        ));
    }
    if let Some(at) = farthest(&ends, end.abs()) {
        return Some(format!(
            "{} differs: its floor is at {}, that of the others at {}",
            name(&answers[at]),
            Bytes::from_f64(ends[at]),
            Bytes::from_f64(end)
        ));
    }
    Some(format!(
        "none of {} runs differs: all are {}, with floors near {}",
        answers.len(),
        word(answers[0].run.main.group),
        Bytes::from_f64(end)
    ))
}

/// The runs outside the group that most are in.
fn other_group(answers: &[Answer]) -> Option<String> {
    let mut groups: BTreeMap<Group, Vec<&Answer>> = BTreeMap::new();
    for answer in answers {
        groups.entry(answer.run.main.group).or_default().push(answer);
    }
    if groups.len() < 2 {
        return None;
    }
    let most = groups.iter().max_by_key(|(_, members)| members.len()).map(|(group, _)| *group)?;
    let share = groups.get(&most).map_or(0, Vec::len);
    let others: Vec<String> = groups
        .iter()
        .filter(|(group, _)| **group != most)
        .flat_map(|(group, members)| {
            members.iter().map(move |answer| format!("{} ({})", name(answer), word(*group)))
        })
        .collect();
    if share * 2 <= answers.len() {
        let all: Vec<String> =
            groups.iter().map(|(group, members)| format!("{} {}", members.len(), word(*group))).collect();
        return Some(format!("the {} runs differ: {}", answers.len(), all.join(", ")));
    }
    let verb = if others.len() == 1 { "differs" } else { "differ" };
    Some(format!("{} {verb} from the {share} others ({})", others.join(", "), word(most)))
}

/// The one that is farthest off the middle, if it is far.
fn farthest(values: &[f64], scale: f64) -> Option<usize> {
    let center = middle(values);
    let away: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    let usual = middle(&away);
    let (at, most) = away.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    // Of two, neither is the odd one.
    (values.len() > 2 && most > FAR * usual && most > WORTH * scale).then_some(at)
}

fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn grown(answer: &Answer) -> f64 {
    let floor = &answer.run.main.floor;
    floor.end_bytes - floor.start_bytes
}

fn delta(bytes: f64) -> ByteDelta {
    ByteDelta(bytes as i64)
}

fn rank(answer: &Answer) -> Option<u32> {
    match &answer.subject.what {
        What::Recording(recording) => rank_of(recording),
        What::Curve(_) => None,
    }
}

fn name(answer: &Answer) -> String {
    rank(answer).map_or_else(
        || answer.subject.label.clone(),
        |rank| format!("rank {rank} ({})", answer.subject.label),
    )
}

const fn word(group: Group) -> &'static str {
    match group {
        Group::Leak => "leaking",
        Group::Bounded => "bounded",
        Group::Flat => "flat",
        Group::TooEarly => "too early to say",
    }
}
