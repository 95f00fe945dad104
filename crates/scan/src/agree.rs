//! How far the ways of samples are one and the same way: only that far is it printed, and only those are said to agree.
//!
//! Seen from the name at the top, ways part: one global can hold a dataset, a model and an optimizer. At each object the way goes on
//! with the larger part: by the same attribute or key of the same type (entries of a list have no name and are one place), or at
//! least to the same type. It ends where no part holds enough.

use crate::climb::{COMMON, Climb};
use crate::path::{Namer, SHORT, Top, line};
use crate::report::HolderStep;
use std::iter::successors;

/// A way that many samples share.
pub(crate) struct Way {
    /// Those that share all of it.
    pub(crate) samples: u64,
    /// From the objects up, and as one line.
    pub(crate) path: Vec<HolderStep>,
    pub(crate) text: String,
    /// Where it ends above the samples because no part is large enough: the largest.
    pub(crate) part: Option<u64>,
}

/// An object on the way down to a sample: where it stands there, its type, and through which of its places it holds the next.
#[derive(Clone, Copy)]
struct Stage {
    at: usize,
    kind: u32,
    place: u64,
}

impl Stage {
    fn what(&self) -> (u32, u64) {
        (self.kind, self.place)
    }
}

/// The way down to one sample: all nodes, and the objects among them.
struct Down {
    sample: u32,
    nodes: Vec<u32>,
    stages: Vec<Stage>,
}

impl Down {
    fn new(namer: &Namer<'_, '_>, climb: &Climb, sample: u32, end: Option<u32>) -> Self {
        let above = |number: &u32| climb.nodes[*number as usize].above.map(|(above, _)| above);
        let up = successors(Some(sample), above).take_while(|number| Some(*number) != end);
        let mut nodes: Vec<u32> = up.collect();
        nodes.reverse();
        let stage = |at: usize| {
            let kind = climb.nodes[nodes[at] as usize].kind?;
            Some(Stage { at, kind, place: namer.place(climb, &nodes, at) })
        };
        let stages = short((0..nodes.len()).filter_map(stage).collect());
        Self { sample, nodes, stages }
    }
}

/// Of a long chain only the first: however far down it a sample hangs, the way is the same.
fn short(mut stages: Vec<Stage>) -> Vec<Stage> {
    let mut at = 0;
    while let Some(first) = stages.get(at).map(Stage::what) {
        let alike = |stage: &&Stage| stage.what() == first;
        if stages[at..].iter().filter(alike).count() >= SHORT
            && let Some(last) = stages.iter().rposition(|stage| stage.what() == first)
        {
            stages.drain(at + 1..=last);
        }
        at += 1;
    }
    stages
}

/// Some samples that are alike in something: what, and which.
type Alike<T> = (Option<T>, u64);

/// The largest part of those that are alike, by bytes.
fn largest<T: PartialEq>(climb: &Climb, downs: &[&Down], what: impl Fn(&Down) -> Option<T>) -> Alike<T> {
    let mut parts: Vec<Alike<T>> = Vec::new();
    for down in downs {
        let (what, bit) = (what(down), 1 << down.sample);
        match parts.iter_mut().find(|part| part.0 == what) {
            Some(part) => part.1 |= bit,
            None => parts.push((what, bit)),
        }
    }
    let most = parts.into_iter().min_by(|one, other| climb.weight(other.1).total_cmp(&climb.weight(one.1)));
    most.unwrap_or((None, 0))
}

impl Way {
    /// The way that most of the samples `held` by a name go; each part of it must stand for `least` bytes.
    pub(crate) fn find(
        namer: &Namer<'_, '_>,
        climb: &Climb,
        (top, held): (Option<&Top>, u64),
        least: f64,
    ) -> Self {
        Self::below(namer, climb, (top, top.and_then(|top| top.end), held), least)
    }

    /// The same for a climb that ended nowhere: the way to the lowest node that holds most samples.
    pub(crate) fn common(namer: &Namer<'_, '_>, climb: &Climb) -> Option<Self> {
        let objects = climb.nodes.iter().filter(|node| node.kind.is_some() && node.level > 0);
        let most = objects.max_by_key(|node| (node.samples.count_ones(), std::cmp::Reverse(node.level)))?;
        let least = climb.weight(climb.all) * COMMON;
        // What leads to a few of them only tells nothing of the rest.
        let enough = climb.weight(most.samples) >= least;
        let end = most.above.map(|(above, _)| above);
        enough.then(|| Self::below(namer, climb, (None, end, most.samples), least))
    }

    fn below(
        namer: &Namer<'_, '_>,
        climb: &Climb,
        (top, end, held): (Option<&Top>, Option<u32>, u64),
        least: f64,
    ) -> Self {
        let samples = (0..climb.all.count_ones()).filter(|sample| held >> sample & 1 == 1);
        let downs: Vec<Down> = samples.map(|sample| Down::new(namer, climb, sample, end)).collect();
        let mut agreed: Vec<&Down> = downs.iter().collect();
        // For each object of the way, whether all hold the next one through the same place.
        let mut named = Vec::new();
        let part = loop {
            let stage = |down: &Down| down.stages.get(named.len()).copied();
            let (what, alike) = largest(climb, &agreed, |down| stage(down).map(|stage| stage.what()));
            let (kind, similar) = largest(climb, &agreed, |down| stage(down).map(|stage| stage.kind));
            let is_same = climb.weight(alike) >= least;
            if !is_same && climb.weight(similar) < least {
                break Some(similar);
            }
            let (held, goes_on) = if is_same { (alike, what.is_some()) } else { (similar, kind.is_some()) };
            agreed.retain(|down| held >> down.sample & 1 == 1);
            if !goes_on {
                break None;
            }
            named.push(is_same);
        };
        let mut path = steps(namer, climb, &agreed, &named);
        let text = line(&path, top.map(|top| top.name.as_str()));
        path.extend(top.map(|top| HolderStep {
            name: top.what.to_owned(),
            through: top.name.clone(),
            count: 1,
            ..HolderStep::default()
        }));
        Self { samples: agreed.iter().fold(0, |all, down| all | 1 << down.sample), path, text, part }
    }
}

/// The objects of a way, lowest first: as far as it was agreed on, as one of those has it.
fn steps(namer: &Namer<'_, '_>, climb: &Climb, agreed: &[&Down], named: &[bool]) -> Vec<HolderStep> {
    let Some(one) = agreed.first() else { return Vec::new() };
    let Some(last) = named.len().checked_sub(1).and_then(|last| one.stages.get(last)) else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    for at in 0..=last.at {
        let stage = one.stages.iter().position(|stage| stage.at == at);
        let count = stage.map_or(1, |stage| {
            let mut nodes: Vec<u32> = agreed.iter().map(|down| down.nodes[down.stages[stage].at]).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes.len() as u64
        });
        let named = stage.is_none_or(|stage| named[stage]);
        steps.extend(namer.step(climb, (&one.nodes, at), count, named));
    }
    steps.reverse();
    steps
}
