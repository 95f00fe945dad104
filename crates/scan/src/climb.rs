//! Who holds the objects of a type: from sampled instances up, level by level, to a name a person knows.
//!
//! The ways up are known from one search (`tree.rs`). A climb ends at a global of a module, a class or a local of a
//! running function; the one that holds most samples is the holder, and where it holds few, that is said.
//! Naming the steps: `path.rs`.

use crate::frames::ByFrame;
use crate::frontier::Frontier;
use crate::index::{Home, Index, Slot, object_of, owner_of};
use crate::links::Links;
use crate::path::{self, Namer, Top};
use crate::presample::Samples;
use crate::reader::Reader;
use crate::report::Holders;
use crate::tree::Tree;
use crate::types::{Type, Types};
use crate::ways::Ways;
use crate::{Settings, TypeUse};
use rustc_hash::FxHashMap;

/// Samples are bits of a word.
const MOST_SAMPLES: usize = 64;
/// A type must hold at least this much, and this part of what all types hold, to be climbed from.
const WORTH: u64 = 64 << 10;
const WORTH_SHARE: u64 = 10;
/// Below this share of the samples a holder is not called one.
const COMMON: f64 = 0.5;
/// One of so many samples may hang on nothing.
const LOOSE: usize = 8;
/// Bytes a search may read however little is resident.
const LEAST_READ: u64 = 64 << 20;

/// A block on the way up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) slot: Slot,
    /// Type, if it is an object.
    pub(crate) kind: Option<u32>,
    /// The node below, and the address of the word that points to it.
    pub(crate) below: Option<(u32, u64)>,
    /// Which samples hang on it.
    pub(crate) samples: u64,
    pub(crate) level: u32,
    /// Whether it points to more than the one below: then no single key names the way.
    pub(crate) many: bool,
}

/// One climb.
#[derive(Default)]
pub(crate) struct Climb {
    pub(crate) nodes: Vec<Node>,
    seen: FxHashMap<u32, u32>,
    /// The node above each node.
    parents: FxHashMap<u32, u32>,
    /// Further ways down from a node: node, the one below, the word that points to it.
    pub(crate) more: Vec<(u32, u32, u64)>,
    pub(crate) all: u64,
    /// Bytes each sample stands for: a large one is not outvoted by two small ones.
    weights: Vec<u64>,
    pub(crate) best: Option<(Top, u64)>,
    /// Samples that hang on a frame by a word that is none of its locals.
    nameless: u64,
    cut: bool,
}

/// The parts of a scan that climbing needs.
pub(crate) struct Ground<'a, 'b> {
    pub(crate) reader: &'b Reader<'a>,
    pub(crate) index: &'b Index,
    pub(crate) types: &'b Types<'a>,
    pub(crate) links: &'b Links,
    /// Blocks that were read as tables of containers.
    pub(crate) tables: &'b Frontier,
    /// Memory of no allocator: frames of running functions lie there.
    pub(crate) outside: &'b [(u64, u64)],
    pub(crate) code_type: Option<u64>,
    /// Bytes the search for ways may read.
    pub(crate) most_read: u64,
    pub(crate) frame_type: Option<u64>,
    pub(crate) module_type: Option<u64>,
    pub(crate) set_type: Option<u64>,
}

impl Ground<'_, '_> {
    /// Where reading ends for one more search that begins now.
    pub(crate) fn limit(&self) -> u64 {
        self.reader.effort().saturating_add(self.most_read.max(LEAST_READ))
    }
}

/// Climbs from the types that grew or hold most: chosen, with their samples, and not yet gone up.
pub(crate) struct Begun<'r> {
    chosen: Vec<&'r TypeUse>,
    climbs: Vec<Climb>,
}

/// Chooses types and their samples: objects that were kept, or in one pass the blocks they own.
pub(crate) fn begin<'r>(
    ground: &Ground<'_, '_>,
    samples: &Samples,
    rows: &'r [TypeUse],
    settings: &Settings,
) -> Begun<'r> {
    let chosen = choose(rows, settings);
    // Which of the chosen a type is, by its number; one of many thousand types.
    let place =
        |found: &Type| chosen.iter().position(|row| found.name == row.name && found.module == row.module);
    let places: Vec<Option<usize>> = ground.types.all.iter().map(place).collect();
    let mut small = vec![0; chosen.len()];
    for (at, found) in places.iter().zip(&ground.types.all) {
        at.iter().for_each(|at| small[*at] += found.small);
    }
    let samplers = chosen.iter().zip(small).map(|(row, small)| Sampler::new(row, small, settings.samples));
    let mut samplers: Vec<Sampler> = samplers.collect();
    for (kind, at) in places.iter().enumerate() {
        let sampler = at.and_then(|at| samplers.get_mut(at)).filter(|sampler| !sampler.owned);
        sampler.into_iter().for_each(|sampler| sampler.objects(ground, samples, kind as u32));
    }
    if samplers.iter().any(|sampler| sampler.owned) {
        let owned: Vec<bool> = samplers.iter().map(|sampler| sampler.owned).collect();
        let place = |tag| owner_of(tag).and_then(|kind| places.get(kind as usize).copied().flatten());
        let wanted = |tag| place(tag).is_some_and(|at| owned[at]);
        ground.index.for_each_wanted(wanted, |slot, tag, home| {
            let large = place(tag).filter(|_| home != Home::Pool);
            large.into_iter().for_each(|at| samplers[at].pass(slot));
        });
    }
    Begun { chosen, climbs: samplers.into_iter().map(|sampler| sampler.climb).collect() }
}

impl Begun<'_> {
    /// All samples; of those that a search `before` was for, the ones it reached: with fewer ways no other can be.
    pub(crate) fn wanted(&self, ground: &Ground<'_, '_>, before: Option<&Tree<'_>>) -> Frontier {
        let mut wanted = Frontier::new(ground.index.slots());
        let samples = self.climbs.iter().flat_map(|climb| &climb.nodes).map(|node| node.slot.id);
        let reached = samples.filter(|id| before.is_none_or(|before| before.is_reached(*id)));
        reached.for_each(|id| wanted.insert(id));
        wanted
    }

    /// Whether a good part of the samples of a type hangs on nothing.
    pub(crate) fn loose(&self, tree: &Tree<'_>) -> bool {
        self.climbs.iter().any(|climb| {
            let samples = climb.nodes.iter().take(climb.all.count_ones() as usize);
            let loose = samples.filter(|node| !tree.is_reached(node.slot.id)).count();
            loose * LOOSE > climb.all.count_ones() as usize
        })
    }

    /// The words by which the samples are held, all the way up.
    pub(crate) fn ways(&self, ground: &Ground<'_, '_>, tree: &Tree<'_>, levels: usize) -> Ways {
        Ways::find(ground, tree, &self.climbs, levels / 2, ground.limit())
    }

    /// Goes up.
    pub(crate) fn end(mut self, ground: &Ground<'_, '_>, (tree, ways): (&Tree<'_>, &Ways)) -> Vec<Holders> {
        for climb in &mut self.climbs {
            climb.cut = tree.cut || ways.cut;
            ascend(ground, (tree, ways), climb);
        }
        self.chosen.iter().zip(&self.climbs).map(|(row, climb)| report(ground, row, climb)).collect()
    }
}

/// Samples by bytes: of the blocks that a type owns if those that are not small are most of what it holds, else its instances.
struct Sampler {
    owned: bool,
    samples: usize,
    step: u64,
    passed: u64,
    next: u64,
    climb: Climb,
}

impl Sampler {
    /// `small` are bytes of what it owns in blocks of pools.
    fn new(row: &TypeUse, small: u64, samples: usize) -> Self {
        let large = row.owned_bytes.0.saturating_sub(small);
        let owned = large > row.own_bytes.0 + small;
        let samples = samples.clamp(1, MOST_SAMPLES);
        let bytes = if owned { large } else { row.own_bytes.0 };
        let total = bytes.saturating_add(row.absent_bytes.0);
        let step = (total / samples as u64).max(1);
        Self { owned, samples, step, passed: 0, next: step / 2, climb: Climb::default() }
    }

    fn pass(&mut self, slot: Slot) {
        self.passed += slot.end - slot.start;
        if self.passed > self.next && self.climb.nodes.len() < MOST_SAMPLES {
            self.next = self.passed + self.step / 2;
            self.climb.sample(slot, None, self.step);
        }
    }

    /// The objects that were kept of a type; several types can have the same name.
    fn objects(&mut self, ground: &Ground<'_, '_>, samples: &Samples, kind: u32) {
        let room = MOST_SAMPLES.saturating_sub(self.climb.nodes.len());
        for slot in samples.of(ground.index, kind, self.samples).into_iter().take(room) {
            self.climb.sample(slot, Some(kind), self.step);
        }
    }
}

/// The types to climb from: those that grew most, or hold most.
fn choose<'r>(rows: &'r [TypeUse], settings: &Settings) -> Vec<&'r TypeUse> {
    match &settings.before {
        None => {
            let all: u64 = rows.iter().map(|row| row.bytes().0).sum();
            let worth = WORTH.max(all / WORTH_SHARE);
            rows.iter().filter(|row| row.bytes().0 >= worth).take(settings.climbs).collect()
        }
        Some(before) => {
            let grown = crate::diff::types(before, rows);
            let up = grown.iter().filter(|row| row.own_bytes.0.saturating_add(row.owned_bytes.0) > 0);
            let find =
                |name: &str, module: &str| rows.iter().find(|row| row.name == name && row.module == module);
            up.take(settings.climbs).filter_map(|row| find(&row.name, &row.module)).collect()
        }
    }
}

impl Climb {
    fn sample(&mut self, slot: Slot, kind: Option<u32>, step: u64) {
        let number = self.nodes.len() as u32;
        self.all |= 1 << number;
        self.weights.push(step.max(slot.end - slot.start));
        self.seen.insert(slot.id, number);
        self.nodes.push(Node { slot, kind, below: None, samples: 1 << number, level: 0, many: false });
    }

    /// A block that points to the one below; gives its node.
    fn found(&mut self, node: Node) -> u32 {
        if let Some(number) = self.seen.get(&node.slot.id).copied() {
            self.nodes[number as usize].many = true;
            self.more.extend(node.below.map(|(below, at)| (number, below, at)));
            return number;
        }
        let number = self.nodes.len() as u32;
        self.seen.insert(node.slot.id, number);
        self.nodes.push(node);
        number
    }

    /// Keeps `top` if it holds more samples than what was found so far.
    fn offer(&mut self, top: Top, samples: u64) {
        let more = self.best.as_ref().is_none_or(|(_, best)| self.weight(*best) < self.weight(samples));
        if more {
            self.best = Some((top, samples));
        }
    }

    /// Bytes that some samples stand for.
    fn weight(&self, samples: u64) -> u64 {
        let chosen = self.weights.iter().enumerate().filter(|(number, _)| samples >> number & 1 == 1);
        chosen.fold(0, |sum: u64, (_, weight)| sum.saturating_add(*weight))
    }

    /// The samples that the best holder holds.
    fn held(&self) -> u64 {
        self.best.as_ref().map_or(0, |(_, samples)| *samples)
    }

    /// Share of the bytes looked at that the best holder holds.
    fn share(&self) -> f64 {
        self.share_of(self.held())
    }

    fn share_of(&self, samples: u64) -> f64 {
        self.weight(samples) as f64 / self.weight(self.all).max(1) as f64
    }
}

/// Where an object itself begins in its block.
pub(crate) fn object_at(ground: &Ground<'_, '_>, slot: Slot, found: &Type) -> u64 {
    slot.start + ground.types.skip() as u64 + found.lead
}

/// Goes up from every sample to where its way begins.
fn ascend(ground: &Ground<'_, '_>, (tree, ways): (&Tree<'_>, &Ways), climb: &mut Climb) {
    let namer = Namer { ground };
    let (mut ends, mut locals) = (Vec::new(), Vec::new());
    for sample in 0..climb.all.count_ones() {
        let mut below = sample;
        // A way is as long as what is known of it.
        for level in 1.. {
            let lower = climb.nodes[below as usize];
            if let Some(by) = tree.frame(lower.slot.id) {
                match by {
                    ByFrame::Local(local) => locals.push((local, below)),
                    ByFrame::Nameless => climb.nameless |= 1 << sample,
                }
                break;
            }
            let known = climb.parents.get(&below).copied();
            let number = known.or_else(|| {
                let (slot, at) = ways.next(lower.slot.id)?;
                let kind = object_of(ground.index.tag(slot.id));
                Some(climb.found(Node {
                    slot,
                    kind,
                    below: Some((below, at)),
                    samples: 0,
                    level,
                    many: false,
                }))
            });
            let Some(number) = number else { break };
            climb.parents.insert(below, number);
            climb.nodes[number as usize].samples |= 1 << sample;
            let node = climb.nodes[number as usize];
            let kept = ways.above(node.slot.id).and_then(|(slot, _)| object_of(ground.index.tag(slot.id)));
            if namer.is_end(&node, kept) {
                climb.nameless |= u64::from(namer.is_nameless(climb, number)) << sample;
                ends.push(number);
                break;
            }
            below = number;
        }
    }
    ends.sort_unstable();
    ends.dedup();
    let tops: Vec<(Top, u64)> = ends.iter().flat_map(|node| namer.tops(climb, *node)).collect();
    tops.into_iter().for_each(|(top, samples)| climb.offer(top, samples));
    // The same local of many frames of one function is one holder.
    locals.sort_unstable();
    for same in locals.chunk_by(|one, next| one.0 == next.0) {
        let samples = same.iter().fold(0, |all, (_, below)| all | climb.nodes[*below as usize].samples);
        if let Some(top) = namer.local(same[0].0, same[0].1) {
            climb.offer(top, samples);
        }
    }
}

fn report(ground: &Ground<'_, '_>, row: &TypeUse, climb: &Climb) -> Holders {
    let share = climb.share();
    let mut holders = Holders {
        name: row.name.clone(),
        module: row.module.clone(),
        count: row.count,
        bytes: row.bytes(),
        samples: u64::from(climb.all.count_ones()),
        agree: u64::from(climb.held().count_ones()),
        share,
        ..Holders::default()
    };
    let namer = Namer { ground };
    if let Some((top, held)) = &climb.best {
        (holders.path, holders.text) = path::describe(&namer, climb, (top, *held));
    }
    if share < COMMON {
        holders.doubt = doubt(climb);
        let (path, text, held) = path::common(&namer, climb);
        (holders.path, holders.text) = (path, text);
        (holders.agree, holders.share) = (u64::from(held.count_ones()), climb.share_of(held));
    }
    holders
}

/// Why there is no single holder that has a name.
fn doubt(climb: &Climb) -> String {
    let budget = if climb.cut { " within the budget" } else { "" };
    match &climb.best {
        Some((top, _)) => format!(
            "no common holder was found{budget}; the most common one, {top}, holds {:.0} %",
            climb.share() * 100.0
        ),
        None if climb.share_of(climb.nameless) >= COMMON => {
            "no name leads to them, only what a running function is working with".to_owned()
        }
        None if climb.cut => format!("no name that leads to them was found{budget}"),
        None => "no name leads to them: perhaps garbage that waits to be collected (`lowtide squeeze` tells), or native \
                 code keeps them"
            .to_owned(),
    }
}
