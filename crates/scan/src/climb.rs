//! Who holds the objects of a type: from sampled instances up, level by level, to a name a person knows.
//!
//! The ways up are known from one search (`tree.rs`). A climb ends at a global of a module, a class or a local of a
//! running function; the one that holds most samples is the holder, and where it holds few, that is said.
//! Naming the steps: `path.rs`; how far the samples' ways are the same one: `agree.rs`.

use crate::agree::Way;
use crate::diff::{DrawnFrom, Grown};
use crate::frames::ByFrame;
use crate::frontier::Frontier;
use crate::index::{Index, Slot, object_of, owner_of};
use crate::links::Links;
use crate::newer::{Unheld, newer};
use crate::path::{Namer, Top};
use crate::presample::{self, Samples, kinds_of};
use crate::reader::{Reader, Resident};
use crate::report::{Holders, TypeGrowth};
use crate::totals::SMALL;
use crate::tree::{Tree, is_foreign};
use crate::types::{Type, Types};
use crate::ways::Ways;
use crate::{Settings, TypeUse};
use rustc_hash::{FxHashMap, FxHashSet};

/// Samples are bits of a word.
const MOST_SAMPLES: usize = presample::MOST;
/// A type must hold at least this much, and this part of what all types hold, to be climbed from.
const WORTH: u64 = 64 << 10;
const WORTH_SHARE: u64 = 10;
/// Below this share of the samples a holder is not called one.
pub(crate) const COMMON: f64 = 0.5;
/// From this share on another way is told too.
const ALSO: f64 = 0.2;
/// One of so many samples may hang on nothing, or on a word that is left from before.
const LOOSE: usize = 8;
/// With 64 samples a share is known to about this: it is not worth another search to find who holds the last of them.
const FEW: f64 = 0.0625;
/// Samples that hang on one word are many from here on.
const MANY: usize = 4;
/// Bytes a search may read however little is resident.
const LEAST_READ: u64 = 64 << 20;

/// A block on the way up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) slot: Slot,
    /// Type, if it is an object.
    pub(crate) kind: Option<u32>,
    /// The node above, and the address of the word there that points to this one.
    pub(crate) above: Option<(u32, u64)>,
    /// Which samples hang on it.
    pub(crate) samples: u64,
    pub(crate) level: u32,
}

/// One climb.
#[derive(Default)]
pub(crate) struct Climb {
    /// The samples come first.
    pub(crate) nodes: Vec<Node>,
    seen: FxHashMap<u32, u32>,
    pub(crate) all: u64,
    /// Bytes each sample stands for: a large one is not outvoted by two small ones.
    weights: Vec<f64>,
    /// Where the samples' ways begin.
    pub(crate) tops: Vec<Top>,
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
    /// What is resident of all blocks.
    pub(crate) resident: &'b Resident,
    /// Where frames of running functions may lie (3.11 and later).
    pub(crate) frames: &'b [(u64, u64)],
    /// Memory of no allocator.
    pub(crate) outside: &'b [(u64, u64)],
    pub(crate) code_type: Option<u64>,
    /// Bytes the search for ways may read.
    pub(crate) most_read: u64,
    pub(crate) frame_type: Option<u64>,
    pub(crate) module_type: Option<u64>,
    pub(crate) set_type: Option<u64>,
}

impl Ground<'_, '_> {
    /// How many bytes of a block are resident, and how many are not: never written, or swapped out.
    pub(crate) fn resident(&self, slot: Slot) -> (u64, u64) {
        let size = slot.end - slot.start;
        let here = if size < SMALL { size } else { self.resident.within(slot.start, slot.end) };
        (here, size - here)
    }

    /// Where reading ends for one more search that begins now.
    pub(crate) fn limit(&self) -> u64 {
        self.reader.effort().saturating_add(self.most_read.max(LEAST_READ))
    }
}

/// Climbs from the types that grew or hold most: chosen, with their samples, and not yet gone up.
pub(crate) struct Begun<'r> {
    chosen: Vec<Chosen<'r>>,
    climbs: Vec<Climb>,
}

/// A type to climb from.
struct Chosen<'r> {
    row: &'r TypeUse,
    /// How it grew, where a scan before tells.
    grown: Option<Grown>,
    /// Whether only new blocks were drawn, and the bytes they were drawn from.
    new: bool,
    from: DrawnFrom,
}

/// Chooses types and draws their samples: objects, or the blocks they own that are not small if those are most of it.
pub(crate) fn begin<'r>(
    ground: &Ground<'_, '_>,
    samples: &Samples,
    rows: &'r [TypeUse],
    settings: &Settings,
) -> Begun<'r> {
    let chosen = choose(rows, settings);
    let kinds = kinds_of(ground.types, chosen.iter().map(|(row, _)| *row));
    let count = settings.samples.clamp(1, MOST_SAMPLES);
    let (mut begun, mut climbs) = (Vec::new(), Vec::new());
    for ((row, grown), kinds) in chosen.into_iter().zip(kinds) {
        let drawn = samples.draw(ground.index, &kinds);
        let small: u64 =
            kinds.iter().filter_map(|kind| ground.types.get(*kind)).map(|found| found.small).sum();
        // What it owns in small blocks hangs on its objects.
        let with_small = 1.0 + small as f64 / row.own_bytes.0.max(1) as f64;
        let (objects, owned) = (drawn.objects.bytes() * with_small, drawn.owned.bytes());
        let from = if owned > objects { &drawn.owned } else { &drawn.objects };
        let mut climb = Climb::default();
        for (slot, weight) in from.blocks(ground.index, count) {
            climb.sample(slot, object_of(ground.index.tag(slot.id)), weight);
        }
        let bytes = objects + owned;
        let unit = from.unit().max(from.step(count)) * bytes / from.bytes().max(1.0);
        begun.push(Chosen { row, grown, new: drawn.new, from: DrawnFrom { bytes, unit } });
        climbs.push(climb);
    }
    Begun { chosen: begun, climbs }
}

impl Begun<'_> {
    /// All samples; of those that a search `before` was for, the ones it reached: with fewer ways no other can be.
    pub(crate) fn wanted(&self, ground: &Ground<'_, '_>, before: Option<&Tree<'_>>) -> Frontier {
        let mut wanted = Frontier::new(ground.index.slots());
        let samples = self.climbs.iter().flat_map(Climb::samples).map(|node| node.slot.id);
        let reached = samples.filter(|id| before.is_none_or(|before| before.is_reached(*id)));
        reached.for_each(|id| wanted.insert(id));
        wanted
    }

    /// Whether of each type only so few samples hang on nothing that what can be told by all of them is as exact without those.
    pub(crate) fn few_left(&self, tree: &Tree<'_>) -> bool {
        self.climbs.iter().all(|climb| {
            let left = (0..).zip(climb.samples()).filter(|(_, node)| !tree.is_reached(node.slot.id));
            climb.share(left.fold(0, |left, (number, _)| left | 1 << number)) <= FEW
        })
    }

    /// Whether a good part of the samples of a type hangs on nothing.
    pub(crate) fn loose(&self, tree: &Tree<'_>) -> bool {
        self.climbs.iter().any(|climb| {
            let loose = climb.samples().filter(|node| !tree.is_reached(node.slot.id)).count();
            loose * LOOSE > climb.all.count_ones() as usize
        })
    }

    /// Whether the ways of a good part of the samples of a type end where a word is gone.
    pub(crate) fn lost(&self, ways: &Ways) -> bool {
        self.climbs.iter().any(|climb| {
            let lost = climb.samples().filter(|node| ways.is_lost(node.slot.id)).count();
            lost * LOOSE > climb.samples().count()
        })
    }

    /// Words of the memory of one type that lead into that of another, and that many samples of a type hang on: each as the block that
    /// has it and the one it only seems to hold. What really holds another's memory, as a parameter its gradient, holds its own; one
    /// word that all of a graph hangs on was left from before the graph was there.
    pub(crate) fn strange(&self, ground: &Ground<'_, '_>, ways: &Ways) -> Vec<(u32, u32)> {
        let owner = |id: u32| object_of(ground.index.tag(id)).or_else(|| owner_of(ground.index.tag(id)));
        let strange = |(low, above): &(u32, u32)| is_foreign(ground.index, *low, owner(*above));
        let mut all = Vec::new();
        for climb in &self.climbs {
            let count = climb.all.count_ones() as usize;
            let mut through: FxHashMap<(u32, u32), usize> = FxHashMap::default();
            for node in climb.samples() {
                ways.up(node.slot.id)
                    .filter(strange)
                    .for_each(|(low, above)| *through.entry((above, low)).or_default() += 1);
            }
            let many = |held: &usize| *held >= MANY && held * LOOSE > count;
            all.extend(through.into_iter().filter(|(_, held)| many(held)).map(|(word, _)| word));
        }
        all.sort_unstable();
        all
    }

    /// The samples whose ways go through one of some words, where they are few of every type's: then it is not worth to look for
    /// other ways.
    pub(crate) fn few_through(&self, ways: &Ways, words: &FxHashSet<(u32, u32)>) -> Option<FxHashSet<u32>> {
        let mut all = FxHashSet::default();
        for climb in self.climbs.iter().filter(|_| !words.is_empty()) {
            let samples = climb.nodes.iter().map(|node| node.slot.id);
            let through: Vec<u32> = samples.filter(|id| ways.goes_through(*id, words)).collect();
            if through.len() * LOOSE > climb.nodes.len() {
                return None;
            }
            all.extend(through);
        }
        Some(all)
    }

    /// Some samples are none.
    pub(crate) fn leave_out(&mut self, samples: &FxHashSet<u32>) {
        for climb in self.climbs.iter_mut().filter(|_| !samples.is_empty()) {
            let Climb { nodes, weights, .. } = std::mem::take(climb);
            let kept = nodes.into_iter().zip(weights).filter(|(node, _)| !samples.contains(&node.slot.id));
            kept.for_each(|(node, weight)| climb.sample(node.slot, node.kind, weight));
        }
    }

    /// The words by which the samples are held, all the way up.
    pub(crate) fn ways(&self, ground: &Ground<'_, '_>, tree: &Tree<'_>, levels: usize) -> Ways {
        Ways::find(ground, tree, &self.climbs, levels / 2, ground.limit())
    }

    /// Goes up from every sample to where its way begins. Gives the names that may hold what no other name does.
    pub(crate) fn ascend(&mut self, ground: &Ground<'_, '_>, (tree, ways): (&Tree<'_>, &Ways)) -> Came {
        for climb in &mut self.climbs {
            climb.ascend(ground, (tree, ways));
        }
        let unheld =
            self.chosen.iter().zip(&self.climbs).enumerate().filter(|(_, (_, climb))| climb.is_unheld());
        let (places, unheld): (Vec<usize>, Vec<Unheld>) = unheld
            .map(|(at, (chosen, climb))| {
                let kinds = kinds_of(ground.types, std::iter::once(chosen.row)).concat();
                (at, Unheld { kinds, samples: climb.unnamed() })
            })
            .unzip();
        Came(places.into_iter().zip(newer(ground, tree, &unheld)).collect())
    }

    /// Goes up once more by other ways from the samples that hang on nothing, also by one that came meanwhile.
    pub(crate) fn ascend_again(
        &mut self,
        ground: &Ground<'_, '_>,
        (tree, ways): (&Tree<'_>, &Ways),
        came: &mut Came,
    ) {
        let climbs = &mut self.climbs;
        came.0.retain(|(at, name)| {
            let again = name.is_none();
            if let Some(climb) = climbs.get_mut(*at).filter(|_| again) {
                climb.forget();
                climb.ascend(ground, (tree, ways));
            }
            !again
        });
    }

    /// What is told of each type.
    pub(crate) fn end(self, ground: &Ground<'_, '_>, came: &Came) -> Vec<Holders> {
        let climbs = self.chosen.iter().zip(&self.climbs);
        let mut all: Vec<Holders> = climbs.map(|(chosen, climb)| report(ground, chosen, climb)).collect();
        for (at, name) in &came.0 {
            if let (Some(holders), Some(name)) = (all.get_mut(*at), name) {
                holders.doubt = may_hold(name);
            }
        }
        all
    }
}

/// The types whose samples hang on nothing, by their place, with a name that leads to what came meanwhile and may hold them.
#[derive(Default)]
pub(crate) struct Came(Vec<(usize, Option<String>)>);

impl Came {
    /// Whether there is such a type and no name for it.
    pub(crate) fn lacks(&self) -> bool {
        self.0.iter().any(|(_, name)| name.is_none())
    }
}

/// The types to climb from: those that grew most, and how, or those that hold most.
fn choose<'r>(rows: &'r [TypeUse], settings: &Settings) -> Vec<(&'r TypeUse, Option<Grown>)> {
    match &settings.before {
        None => {
            let all: u64 = rows.iter().map(|row| row.bytes().0).sum();
            let worth = WORTH.max(all / WORTH_SHARE);
            let most = rows.iter().filter(|row| row.bytes().0 >= worth);
            most.take(settings.climbs).map(|row| (row, None)).collect()
        }
        Some(before) => {
            let grown = crate::diff::types(before, rows);
            let up = grown.iter().filter(|row| row.bytes() > 0);
            let find = |grown: &TypeGrowth| {
                rows.iter().find(|row| row.name == grown.name && row.module == grown.module)
            };
            let found = |grown: &TypeGrowth| Some((find(grown)?, Grown::of(grown)));
            up.take(settings.climbs).filter_map(found).collect()
        }
    }
}

impl Climb {
    fn sample(&mut self, slot: Slot, kind: Option<u32>, weight: f64) {
        let number = self.nodes.len() as u32;
        self.all |= 1 << number;
        self.weights.push(weight);
        self.seen.insert(slot.id, number);
        self.nodes.push(Node { slot, kind, above: None, samples: 1 << number, level: 0 });
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().take(self.all.count_ones() as usize)
    }

    /// The node of a block.
    fn found(&mut self, ground: &Ground<'_, '_>, slot: Slot, level: u32) -> u32 {
        *self.seen.entry(slot.id).or_insert_with(|| {
            let kind = object_of(ground.index.tag(slot.id));
            self.nodes.push(Node { slot, kind, above: None, samples: 0, level });
            self.nodes.len() as u32 - 1
        })
    }

    /// Nodes that a node points to.
    pub(crate) fn below(&self, number: u32) -> impl Iterator<Item = u32> {
        let held = move |node: &Node| node.above.is_some_and(|(above, _)| above == number);
        (0..).zip(&self.nodes).filter(move |(_, node)| held(node)).map(|(below, _)| below)
    }

    /// Bytes that some samples stand for.
    pub(crate) fn weight(&self, samples: u64) -> f64 {
        let chosen = self.weights.iter().enumerate().filter(|(number, _)| samples >> number & 1 == 1);
        chosen.map(|(_, weight)| *weight).sum()
    }

    /// What part of all some samples stand for.
    fn share(&self, samples: u64) -> f64 {
        self.weight(samples) / self.weight(self.all).max(1.0)
    }

    /// Goes up from every sample to where its way begins.
    fn ascend(&mut self, ground: &Ground<'_, '_>, (tree, ways): (&Tree<'_>, &Ways)) {
        let climb = self;
        climb.cut = tree.cut || ways.cut;
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
                if lower.above.is_none()
                    && let Some((slot, at)) = ways.next(lower.slot.id)
                {
                    let above = climb.found(ground, slot, level);
                    climb.nodes[below as usize].above = Some((above, at));
                }
                let Some((above, _)) = climb.nodes[below as usize].above else { break };
                climb.nodes[above as usize].samples |= 1 << sample;
                let node = climb.nodes[above as usize];
                let kept =
                    ways.above(node.slot.id).and_then(|(slot, _)| object_of(ground.index.tag(slot.id)));
                if namer.is_end(&node, kept) {
                    climb.nameless |= u64::from(namer.is_nameless(climb, above)) << sample;
                    ends.push(above);
                    break;
                }
                below = above;
            }
        }
        ends.sort_unstable();
        ends.dedup();
        // The same local of many frames of one function is one holder.
        locals.sort_unstable();
        let samples = |below: u32| climb.nodes[below as usize].samples;
        let local = locals.chunk_by(|one, next| one.0 == next.0).filter_map(|same| {
            namer.local(same[0].0, same.iter().fold(0, |all, (_, below)| all | samples(*below)))
        });
        let named = ends.iter().flat_map(|node| namer.tops(climb, *node));
        climb.tops = named.chain(local).collect();
    }

    /// Forgets where it went.
    fn forget(&mut self) {
        let Self { nodes, weights, .. } = std::mem::take(self);
        let samples = nodes.into_iter().zip(weights);
        samples.for_each(|(node, weight)| self.sample(node.slot, node.kind, weight));
    }

    /// The samples that no name leads to.
    fn unnamed(&self) -> Vec<u32> {
        let named = self.tops.iter().fold(0, |all, top| all | top.samples);
        let samples = (0..).zip(self.samples());
        samples.filter(|(number, _)| named >> number & 1 == 0).map(|(_, node)| node.slot.id).collect()
    }

    /// Whether most of the samples hang on no name, and there was time to look for one.
    fn is_unheld(&self) -> bool {
        let named = self.tops.iter().fold(0, |all, top| all | top.samples);
        !self.cut && self.all != 0 && self.share(named) < COMMON
    }

    /// The one that holds most of some samples, and those it holds.
    fn top(&self, among: u64) -> Option<(&Top, u64)> {
        let held = self.tops.iter().map(|top| (top, top.samples & among)).filter(|(_, held)| *held != 0);
        held.min_by(|one, other| self.weight(other.1).total_cmp(&self.weight(one.1)))
    }
}

/// Where an object itself begins in its block.
pub(crate) fn object_at(ground: &Ground<'_, '_>, slot: Slot, found: &Type) -> u64 {
    slot.start + ground.types.skip() as u64 + found.lead
}

fn report(ground: &Ground<'_, '_>, chosen: &Chosen<'_>, climb: &Climb) -> Holders {
    let Chosen { row, grown, new, from } = *chosen;
    let mut holders = Holders {
        name: row.name.clone(),
        module: row.module.clone(),
        count: row.count,
        bytes: row.bytes(),
        new,
        samples: u64::from(climb.all.count_ones()),
        ..Holders::default()
    };
    let namer = Namer { ground };
    let most = climb.top(climb.all);
    let way = match most.filter(|(_, held)| climb.share(*held) >= COMMON) {
        Some((top, held)) => {
            let way = Way::find(&namer, climb, (Some(top), held), climb.weight(climb.all) * COMMON);
            holders.also = also(&namer, climb, (top, &way));
            Some(way)
        }
        None => {
            let way = Way::common(&namer, climb);
            holders.doubt = doubt(climb, most, way.is_some());
            way
        }
    };
    if let Some(way) = way {
        holders.agree = u64::from(way.samples.count_ones());
        holders.share = climb.share(way.samples);
        (holders.path, holders.text) = (way.path, way.text);
    }
    if let Some(grown) = grown {
        crate::diff::doubt_holder(&mut holders, from, grown);
    }
    holders
}

/// The way of the largest part where the ways part, else the next one beside that which was found.
fn also(namer: &Namer<'_, '_>, climb: &Climb, (top, way): (&Top, &Way)) -> String {
    let next = match way.part {
        Some(part) => Some((top, part)),
        None => climb.top(climb.all & !way.samples),
    };
    let Some((top, held)) = next.filter(|(_, held)| climb.share(*held) >= ALSO) else { return String::new() };
    let next = Way::find(namer, climb, (Some(top), held), climb.weight(held) * COMMON);
    format!("{:.0} % by {}", climb.share(next.samples) * 100.0, next.text)
}

/// What is said of samples that hang on nothing where a name leads to what came meanwhile.
fn may_hold(name: &str) -> String {
    format!(
        "no name that leads to them was found: {name} leads to what came while the scan went on, and may hold them"
    )
}

/// Why there is no single holder that has a name; `most` holds most of them, and a part of their way may be `common`.
fn doubt(climb: &Climb, most: Option<(&Top, u64)>, common: bool) -> String {
    let budget = if climb.cut { " within the budget" } else { "" };
    let above = if common { "above that " } else { "" };
    match most {
        Some((top, held)) => format!(
            "{above}no common holder was found{budget}; the most common one, {top}, holds {:.0} %",
            climb.share(held) * 100.0
        ),
        None if climb.share(climb.nameless) >= COMMON => {
            "no name leads to them, only what a running function is working with".to_owned()
        }
        None if climb.cut => format!("no name that leads to them was found{budget}"),
        None => "no name leads to them: perhaps garbage that waits to be collected (`lowtide squeeze` tells), or native \
                 code keeps them, or what holds them changed while the scan went on"
            .to_owned(),
    }
}
