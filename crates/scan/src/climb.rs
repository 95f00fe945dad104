//! Who holds the objects of a type: from sampled instances up, level by level, to a name a person knows.
//!
//! Each level is one pass over all live blocks that looks for pointers to the blocks of the level below, for all
//! climbs at once. A climb ends at a global of a module, an attribute of a class or a local of a running function
//! that holds nearly all samples; where none does within the budget, it says so. Naming the steps: `path.rs`.

use crate::index::{Index, Slot, Tag, object_of, owner_of};
use crate::path::{self, Namer, Top};
use crate::reader::{Reader, Window, plausible, word};
use crate::report::Holders;
use crate::types::{Type, Types};
use crate::{Settings, TypeUse};
use rustc_hash::FxHashMap;

/// Samples are bits of a word.
const MOST_SAMPLES: usize = 64;
/// Nodes of one climb that are climbed from at each level: those that hold most samples.
const WIDTH: usize = 192;
/// Nodes of one climb altogether.
const MOST_NODES: usize = 1 << 14;
/// Holders of one type that are followed up from one node, and blocks that are no objects.
const MOST_ALIKE: u16 = 8;
const MOST_RAW_ALIKE: u16 = 256;
/// Levels after which samples must have begun to meet. Pixels of a picture in a list are nine below the list.
const PATIENCE: u32 = 12;
/// Share of the samples one holder must hold for the climb to end.
const ENOUGH: f64 = 0.9;
/// Raw blocks larger than this are looked through only if they begin with pointers.
const WHOLE: u64 = 64 << 10;
/// Blocks are pointed to in their first bytes; only there a pointer is looked for.
const FRONT: u64 = 512;
/// A type must hold at least this much, and this part of what all types hold, to be climbed from.
const WORTH: u64 = 64 << 10;
const WORTH_SHARE: u64 = 10;
/// Below this share of the samples a holder is not called one.
const COMMON: f64 = 0.5;

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
pub(crate) struct Climb {
    pub(crate) nodes: Vec<Node>,
    seen: FxHashMap<u32, u32>,
    /// Holders of one kind that a node of this level has so far.
    alike: FxHashMap<(u32, u32), u16>,
    front: Vec<u32>,
    /// Further ways down from a node: node, the one below, the word that points to it.
    pub(crate) more: Vec<(u32, u32, u64)>,
    pub(crate) all: u64,
    pub(crate) best: Option<(Top, u64)>,
    cut: bool,
}

/// The parts of a scan that climbing needs.
pub(crate) struct Ground<'a, 'b> {
    pub(crate) reader: &'b Reader<'a>,
    pub(crate) index: &'b Index,
    pub(crate) types: &'b Types<'a>,
    /// Bits of raw blocks without a single pointer in them.
    pub(crate) barren: &'b [u64],
    /// Where frames of running functions lie.
    pub(crate) stacks: &'b [(u64, u64)],
    pub(crate) code_type: Option<u64>,
    /// Bytes all climbs together may read.
    pub(crate) most_read: u64,
    pub(crate) weakref_type: Option<u64>,
    pub(crate) frame_type: Option<u64>,
}

impl Ground<'_, '_> {
    fn barren(&self, id: u32) -> bool {
        self.barren.get(id as usize / 64).is_some_and(|bits| bits >> (id % 64) & 1 == 1)
    }
}

/// Climbs from the types that grew or hold most.
pub(crate) fn climb(ground: &Ground<'_, '_>, rows: &[TypeUse], settings: &Settings) -> Vec<Holders> {
    let chosen = choose(rows, settings);
    let mut climbs: Vec<Climb> =
        chosen.iter().map(|row| Climb::begin(ground, row, settings.samples)).collect();
    let limit = ground.reader.spent().1.saturating_add(settings.most_climb_bytes.0.min(ground.most_read));
    for level in 1..=settings.levels as u32 {
        if climbs.iter().all(|climb| climb.front.is_empty()) {
            break;
        }
        if ground.reader.spent().1 > limit {
            climbs.iter_mut().for_each(|climb| climb.cut |= !climb.front.is_empty());
            break;
        }
        pass(ground, &mut climbs, level);
    }
    chosen.iter().zip(&climbs).map(|(row, climb)| report(ground, row, climb)).collect()
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
    /// Samples by bytes: of what the type owns if that is more than what it is, else its instances.
    fn begin(ground: &Ground<'_, '_>, row: &TypeUse, samples: usize) -> Self {
        let types = ground.types.all.iter().enumerate();
        let same = types.filter(|(_, found)| found.name == row.name && found.module == row.module);
        let kinds: Vec<u32> = same.map(|(kind, _)| kind as u32).collect();
        let owned = row.owned_bytes > row.own_bytes;
        let wanted = |tag: Tag| match (owned, object_of(tag), owner_of(tag)) {
            (false, Some(kind), _) | (true, None, Some(kind)) => kinds.contains(&kind),
            _ => false,
        };
        let total: u64 =
            if owned { row.owned_bytes.0 + row.absent_bytes.0 } else { row.own_bytes.0 + row.absent_bytes.0 };
        let step = (total / samples.clamp(1, MOST_SAMPLES) as u64).max(1);
        let (mut passed, mut next) = (0, step / 2);
        let mut climb = Self {
            nodes: Vec::new(),
            seen: FxHashMap::default(),
            alike: FxHashMap::default(),
            front: Vec::new(),
            more: Vec::new(),
            all: 0,
            best: None,
            cut: false,
        };
        ground.index.for_each(|slot, tag, _| {
            if !wanted(tag) {
                return;
            }
            passed += slot.end - slot.start;
            if passed > next && climb.nodes.len() < MOST_SAMPLES {
                next = passed + step / 2;
                climb.sample(slot, object_of(tag));
            }
        });
        climb
    }

    fn sample(&mut self, slot: Slot, kind: Option<u32>) {
        let number = self.nodes.len() as u32;
        self.all |= 1 << number;
        self.seen.insert(slot.id, number);
        self.front.push(number);
        self.nodes.push(Node { slot, kind, below: None, samples: 1 << number, level: 0, many: false });
    }

    /// A block that points to the one below.
    fn found(&mut self, node: Node) {
        if let Some(number) = self.seen.get(&node.slot.id) {
            let known = &mut self.nodes[*number as usize];
            if known.level == node.level {
                known.samples |= node.samples;
                known.many |= known.below.map(|(below, _)| below) != node.below.map(|(below, _)| below);
                if let Some((below, at)) = node.below
                    && self.more.len() < MOST_NODES
                {
                    self.more.push((*number, below, at));
                }
            }
            return;
        }
        // Thousands of alike holders of one thing tell no more than a few, and would crowd out the one with a name.
        let kind = (node.below.map_or(0, |(below, _)| below), node.kind.unwrap_or(u32::MAX));
        let alike = self.alike.entry(kind).or_default();
        *alike = alike.saturating_add(1);
        if *alike > (if node.kind.is_some() { MOST_ALIKE } else { MOST_RAW_ALIKE }) {
            return;
        }
        if self.nodes.len() >= MOST_NODES {
            self.cut = true;
            return;
        }
        self.seen.insert(node.slot.id, self.nodes.len() as u32);
        self.nodes.push(node);
    }

    /// Keeps `top` if it holds more samples than what was found so far.
    fn offer(&mut self, top: Top, samples: u64) {
        let more = self.best.as_ref().is_none_or(|(_, best)| best.count_ones() < samples.count_ones());
        if more {
            self.best = Some((top, samples));
        }
    }

    /// Prepares the next level from what this one found.
    fn settle(&mut self, namer: &Namer<'_, '_>, level: u32) {
        let first = self.nodes.partition_point(|node| node.level < level);
        let mut fresh: Vec<u32> = (first as u32..self.nodes.len() as u32).collect();
        let mut tops = Vec::new();
        fresh.retain(|node| {
            let found = namer.tops(self, *node);
            let on = found.is_empty();
            tops.extend(found);
            on
        });
        tops.into_iter().for_each(|(top, samples)| self.offer(top, samples));
        fresh.sort_by_key(|node| std::cmp::Reverse(self.nodes[*node as usize].samples.count_ones()));
        self.cut |= fresh.len() > WIDTH;
        fresh.truncate(WIDTH);
        self.alike.clear();
        let joined =
            fresh.iter().map(|node| self.nodes[*node as usize].samples.count_ones()).max().unwrap_or(0);
        let hopeless = level >= PATIENCE && joined <= 2;
        self.front = if self.share() >= ENOUGH || hopeless { Vec::new() } else { fresh };
    }

    /// Share of the samples that the best holder holds.
    pub(crate) fn share(&self) -> f64 {
        let held = self.best.as_ref().map_or(0, |(_, samples)| samples.count_ones());
        f64::from(held) / f64::from(self.all.count_ones().max(1))
    }
}

/// Where the blocks of a level are pointed to: sorted ranges behind a filter of bits.
struct Targets {
    filter: Vec<u64>,
    /// First and last address that counts, climb, node.
    ranges: Vec<(u64, u64, u16, u32)>,
}

const FILTER_BITS: u64 = 1 << 19;

impl Targets {
    fn of(ground: &Ground<'_, '_>, climbs: &[Climb]) -> Self {
        let mut targets = Self { filter: vec![0; FILTER_BITS as usize / 64], ranges: Vec::new() };
        for (number, climb) in climbs.iter().enumerate() {
            for node in &climb.front {
                let Node { slot, kind, .. } = climb.nodes[*node as usize];
                let (from, to) = match kind.and_then(|kind| ground.types.get(kind)) {
                    // An object is pointed to where it begins, behind the collector's links.
                    Some(found) => (object_at(ground, slot, found), object_at(ground, slot, found)),
                    None => (slot.start, slot.end.min(slot.start + FRONT) - 8),
                };
                targets.ranges.push((from, to, number as u16, *node));
                (from >> 4..=to >> 4).for_each(|granule| targets.set(granule));
            }
        }
        targets.ranges.sort_unstable();
        targets
    }

    fn set(&mut self, granule: u64) {
        let bit = granule % FILTER_BITS;
        self.filter[(bit / 64) as usize] |= 1 << (bit % 64);
    }

    #[inline]
    fn may(&self, address: u64) -> bool {
        let bit = (address >> 4) % FILTER_BITS;
        self.filter[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }

    /// The targets an address points to: one in each climb at most.
    fn hits(&self, address: u64) -> impl Iterator<Item = (u16, u32)> + '_ {
        let after = self.ranges.partition_point(|range| range.0 <= address);
        let near = self.ranges[..after].iter().rev().take_while(move |range| address < range.0 + FRONT);
        near.filter(move |range| address <= range.1).map(|range| (range.2, range.3))
    }
}

/// Where an object itself begins in its block.
pub(crate) fn object_at(ground: &Ground<'_, '_>, slot: Slot, found: &Type) -> u64 {
    slot.start + ground.types.skip() as u64 + found.lead
}

/// Looks for pointers to the current level everywhere.
fn pass(ground: &Ground<'_, '_>, climbs: &mut [Climb], level: u32) {
    let targets = Targets::of(ground, climbs);
    let mut window = Window::new(64 << 10);
    let mut hits: Vec<(u16, u32, u64)> = Vec::new();
    ground.index.for_each(|slot, tag, _| {
        let kind = object_of(tag);
        let raw = kind.is_none() && (tag == crate::index::RAW || owner_of(tag).is_some());
        hits.clear();
        if let Some(found) = kind.and_then(|kind| ground.types.get(kind)) {
            if !holds(ground, found) {
                return;
            }
            let start = slot.start + ground.types.skip() as u64;
            let (head, from, to) = found.pointers(slot.end - start, ground.types.version);
            look(ground.reader, &targets, &mut window, (start, start + head), &mut hits);
            look(ground.reader, &targets, &mut window, (start + from, start + to.max(from)), &mut hits);
        } else if raw
            && !ground.barren(slot.id)
            && (slot.end - slot.start <= WHOLE || pointers_inside(ground, &mut window, slot))
        {
            look(ground.reader, &targets, &mut window, (slot.start, slot.end & !7), &mut hits);
        }
        for (climb, below, at) in &hits {
            let climb = &mut climbs[*climb as usize];
            let lower = climb.nodes[*below as usize];
            if lower.slot.id != slot.id {
                let below = Some((*below, *at));
                climb.found(Node { slot, kind, below, samples: lower.samples, level, many: false });
            }
        }
    });
    let namer = Namer { ground };
    frames(&namer, climbs, &targets, &mut window);
    climbs.iter_mut().filter(|climb| !climb.front.is_empty()).for_each(|climb| climb.settle(&namer, level));
}

/// Locals of running functions.
fn frames(namer: &Namer<'_, '_>, climbs: &mut [Climb], targets: &Targets, window: &mut Window) {
    let ground = namer.ground;
    let mut hits = Vec::new();
    ground.stacks.iter().for_each(|range| look(ground.reader, targets, window, *range, &mut hits));
    for (climb, below, at) in hits {
        if let Some(top) = namer.local(at, below) {
            let climb = &mut climbs[climb as usize];
            climb.offer(top, climb.nodes[below as usize].samples);
        }
    }
}

fn look(
    reader: &Reader<'_>,
    targets: &Targets,
    window: &mut Window,
    range: (u64, u64),
    hits: &mut Vec<(u16, u32, u64)>,
) {
    window.words(reader, range, |at, stored| {
        // Low bits are marks: 3.12 takes one away from a pointer to values, 3.14 marks what a frame borrows.
        let address = if stored & 7 == 7 { stored.wrapping_add(1) } else { stored & !3 };
        if address != 0 && targets.may(address) {
            hits.extend(targets.hits(address).map(|(climb, node)| (climb, node, at)));
        }
    });
}

/// Whether a large block is a table of pointers: at its beginning, or further in where a dict's entries are.
fn pointers_inside(ground: &Ground<'_, '_>, window: &mut Window, slot: Slot) -> bool {
    let length = (slot.end - slot.start) & !7;
    [0, length / 2, length / 8 * 5].iter().any(|offset| {
        let place = (slot.start + offset) & !7;
        let Some(bytes) = window.at(ground.reader, place, 512, slot.end) else { return false };
        let words = (0..64).map(|number| word(bytes, number * 8)).filter(|word| *word != 0);
        let (all, good) =
            words.fold((0, 0), |(all, good), address| (all + 1, good + u32::from(plausible(address))));
        good * 4 > all
    })
}

/// Whether what an object points to lives because of it. A weak reference only looks at it, and code remembers
/// globals it has seen (3.9, 3.10) without holding them.
fn holds(ground: &Ground<'_, '_>, found: &Type) -> bool {
    let is = |kind: Option<u64>| kind.is_some_and(|kind| found.address == kind || found.base == kind);
    !is(ground.weakref_type) && !is(ground.code_type)
}

fn report(ground: &Ground<'_, '_>, row: &TypeUse, climb: &Climb) -> Holders {
    let share = climb.share();
    let mut holders = Holders {
        name: row.name.clone(),
        module: row.module.clone(),
        count: row.count,
        bytes: row.bytes(),
        samples: u64::from(climb.all.count_ones()),
        share,
        ..Holders::default()
    };
    let namer = Namer { ground };
    if let Some((top, _)) = &climb.best {
        (holders.path, holders.text) = path::describe(&namer, climb, top);
    }
    if share < COMMON {
        let budget = if climb.cut { " within the budget" } else { "" };
        let most = match &climb.best {
            Some((top, _)) => format!("; the most common one, {top}, holds {:.0} %", share * 100.0),
            None => String::new(),
        };
        holders.doubt = format!("no common holder was found{budget}{most}");
        (holders.path, holders.text) = path::common(&namer, climb);
    }
    holders
}
