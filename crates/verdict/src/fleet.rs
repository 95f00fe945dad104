//! Which of several runs differs: ranks of one job, or the recordings of a folder.
//!
//! Ranks of one job do the same work, so each is held against the middle of all. Not here: why one differs; its own
//! answer says that.

use crate::phrases::size;
use crate::verdict::{Group, Verdict};
use lowtide_model::{ByteDelta, Mark, Process, Recording};
use std::collections::{BTreeMap, BTreeSet};

/// A run differs when it is off the middle by this many times the usual distance from it ...
const FAR: f64 = 4.0;
/// ... and by this part of the middle itself, so that equal ranks are not told apart by crumbs.
const WORTH: f64 = 0.1;

/// One run of several, by the name people know it by.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its answer.
    pub verdict: &'a Verdict,
}

/// One sentence on which run differs, or that none does.
pub fn who_differs(runs: &[Member<'_>]) -> Option<String> {
    let first = runs.first()?;
    if let Some(words) = other_group(runs) {
        return Some(words);
    }
    let ends: Vec<f64> = runs.iter().map(|run| run.verdict.floor.end_bytes).collect();
    let growths: Vec<f64> =
        runs.iter().map(|run| run.verdict.floor.end_bytes - run.verdict.floor.start_bytes).collect();
    let (end, growth) = (middle(&ends), middle(&growths));
    if let Some(at) = farthest(&growths, end.abs()) {
        let delta = |bytes: f64| ByteDelta(bytes as i64);
        return Some(format!(
            "{} differs: its floor moved by {}, that of the others by {}",
            runs[at].name,
            delta(growths[at]),
            delta(growth)
        ));
    }
    if let Some(at) = farthest(&ends, end.abs()) {
        return Some(format!(
            "{} differs: its floor is at {}, that of the others at {}",
            runs[at].name,
            size(ends[at]),
            size(end)
        ));
    }
    let all = word(first.verdict.group);
    Some(format!("none of {} runs differs: all are {all}, with floors near {}", runs.len(), size(end)))
}

/// The runs outside the group that most are in.
fn other_group(runs: &[Member<'_>]) -> Option<String> {
    let mut groups: BTreeMap<Group, Vec<&Member<'_>>> = BTreeMap::new();
    for run in runs {
        groups.entry(run.verdict.group).or_default().push(run);
    }
    if groups.len() < 2 {
        return None;
    }
    let (most, members) = groups.iter().max_by_key(|(_, members)| members.len())?;
    let share = members.len();
    if share * 2 <= runs.len() {
        let one = |(group, members): (&Group, &Vec<_>)| format!("{} {}", members.len(), word(*group));
        let all: Vec<String> = groups.iter().map(one).collect();
        return Some(format!("the {} runs differ: {}", runs.len(), all.join(", ")));
    }
    let named = |run: &&Member<'_>| format!("{} ({})", run.name, word(run.verdict.group));
    let others: Vec<String> = groups
        .iter()
        .filter(|(group, _)| *group != most)
        .flat_map(|(_, members)| members.iter().map(named))
        .collect();
    let verb = if others.len() == 1 { "differs" } else { "differ" };
    Some(format!("{} {verb} from the {share} others ({})", others.join(", "), word(*most)))
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

const fn word(group: Group) -> &'static str {
    match group {
        Group::Leak => "leaking",
        Group::Bounded => "bounded",
        Group::Flat => "flat",
        Group::TooEarly => "too early to say",
    }
}

/// Which rank of a distributed run a recording is of; one that holds several is none of them.
pub fn rank_of(recording: &Recording) -> Option<u32> {
    rank_among(recording.processes.iter(), &recording.marks)
}

/// The same from a part of a recording.
pub fn rank_among<'a>(processes: impl Iterator<Item = &'a Process>, marks: &[Mark]) -> Option<u32> {
    let marked = marks.iter().filter_map(|mark| mark.rank);
    let variables = processes.flat_map(|process| &process.env);
    let told = variables.filter(|(name, _)| name == "RANK").filter_map(|(_, value)| value.parse().ok());
    let ranks: BTreeSet<u32> = marked.chain(told).collect();
    if ranks.len() == 1 { ranks.into_iter().next() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judge;
    use lowtide_model::{Axis, Context, Metric};

    fn verdict(group: Group, end_gib: f64) -> Verdict {
        let mut verdict = Judge::new(Context::default(), Axis::Seconds, Metric::Anon).verdict();
        verdict.group = group;
        verdict.floor.start_bytes = 1e9;
        verdict.floor.end_bytes = end_gib * 1_073_741_824.0;
        verdict
    }

    fn said(verdicts: &[Verdict]) -> String {
        let names = ["rank 0", "rank 1", "rank 2", "rank 3"];
        let runs: Vec<Member<'_>> =
            names.iter().zip(verdicts).map(|(name, verdict)| Member { name, verdict }).collect();
        who_differs(&runs).unwrap()
    }

    #[test]
    fn the_odd_rank_is_named_by_its_group_or_its_growth() {
        let flat = || verdict(Group::Flat, 4.0);
        assert_eq!(
            said(&[flat(), verdict(Group::Leak, 9.0), flat(), flat()]),
            "rank 1 (leaking) differs from the 3 others (flat)"
        );
        let more = said(&[flat(), flat(), verdict(Group::Flat, 7.0), flat()]);
        assert!(more.starts_with("rank 2 differs: its floor moved by"), "{more}");
    }

    #[test]
    fn equal_ranks_do_not_differ_and_of_two_neither_is_odd() {
        let near = |gib| verdict(Group::Bounded, gib);
        let none = said(&[near(4.0), near(4.01), near(3.99), near(4.0)]);
        assert_eq!(none, "none of 4 runs differs: all are bounded, with floors near 4.00 GiB");
        assert!(said(&[near(4.0), near(9.0)]).starts_with("none of 2 runs"));
        assert_eq!(who_differs(&[]), None);
    }
}
