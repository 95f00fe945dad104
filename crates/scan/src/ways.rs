//! By which word each block on the way up from the samples is held: every block above is read once, however many of the
//! samples it holds. A list of millions would otherwise be read for each of them.

use crate::chain;
use crate::climb::{Climb, Ground};
use crate::index::{Slot, object_of};
use crate::links::{Holding, unmarked};
use crate::reader::{Window, plausible};
use crate::tree::Tree;
use crate::types::Family;
use rustc_hash::{FxHashMap, FxHashSet};

/// Blocks of the longest way that is known, of which of long chains only the ends are.
const LONGEST: usize = 1 << 16;
/// Blocks of long chains that are gone up, all together: about half a second.
const MOST_STEPS: usize = 1 << 22;

/// For a block the one above it, and the word there that points to it.
pub(crate) struct Ways {
    above: FxHashMap<u32, (Slot, u64)>,
    /// Where a long chain goes on near its upper end.
    skipped: FxHashMap<u32, Slot>,
    /// Blocks that no other word of the one above leads to than one that is the hash of a key.
    hashed: FxHashSet<u32>,
    /// Blocks that the one above, told with them, led to when it was read first and no longer does: it moved its entries.
    lost: FxHashMap<u32, u32>,
    /// Whether the budget of reads ended it.
    pub(crate) cut: bool,
}

impl Ways {
    /// The ways of all samples.
    pub(crate) fn find(
        ground: &Ground<'_, '_>,
        tree: &Tree<'_>,
        climbs: &[Climb],
        levels: usize,
        limit: u64,
    ) -> Self {
        let mut held: FxHashMap<u32, Vec<Slot>> = FxHashMap::default();
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        let mut skipped = FxHashMap::default();
        let mut tops = Tops::new(ground, tree, levels);
        for sample in climbs.iter().flat_map(Climb::samples).map(|node| node.slot) {
            let mut low = sample;
            for level in 0.. {
                if level == levels {
                    // The lower end of a long chain is enough, and the upper one: what is between is like it.
                    let top = tops.of(low);
                    if let Some(first) = top.first() {
                        if tree.above(low.id) == Some(first.id) {
                            held.entry(first.id).or_default().push(low);
                        } else {
                            skipped.insert(low.id, *first);
                        }
                    }
                    for pair in top.windows(2).take_while(|pair| seen.insert(pair[0].id)) {
                        held.entry(pair[1].id).or_default().push(pair[0]);
                    }
                    break;
                }
                if !seen.insert(low.id) || tree.frame(low.id).is_some() {
                    break;
                }
                let Some(above) = tree.above(low.id).and_then(|id| ground.index.slot(id)) else { break };
                held.entry(above.id).or_default().push(low);
                if is_class(ground, above) {
                    break;
                }
                low = above;
            }
        }
        let mut ways = Self {
            above: FxHashMap::default(),
            skipped,
            hashed: FxHashSet::default(),
            lost: FxHashMap::default(),
            cut: tops.left == 0,
        };
        let mut window = Window::new(64 << 10);
        for (above, mut below) in held {
            if ground.reader.effort() > limit {
                ways.cut = true;
                break;
            }
            below.sort_unstable_by_key(|slot| slot.start);
            if let Some(slot) = ground.index.slot(above) {
                let missing = ways.read(ground, &mut window, slot, below);
                ways.lost.extend(missing.iter().map(|below| (below.id, above)));
            }
        }
        ways
    }

    /// Words that some way goes through and that are hashes in a dict or a set: they hold nothing.
    pub(crate) fn hashes(&self) -> Vec<(u32, u32)> {
        self.hashed.iter().filter_map(|below| Some((self.above(*below)?.0.id, *below))).collect()
    }

    /// Words that some way goes through and that are left from before: behind the last entry of a list, whose table has room to
    /// grow, and in blocks of a queue. Each as the block that has it and the one that it only seems to hold.
    pub(crate) fn stale(&self, ground: &Ground<'_, '_>) -> Vec<(u32, u32)> {
        let behind = |(below, (table, place)): (&u32, &(Slot, u64))| {
            let (list, _) = self.above(table.id)?;
            let entries = ground.links.list_entries(ground.reader, ground.index, list)?;
            let left =
                (table.start..table.end).contains(&entries.0) && !(entries.0..entries.1).contains(place);
            left.then_some((table.id, *below))
        };
        let is_native = |id: u32| object_of(ground.index.tag(id)).is_none();
        let apart = |(_, (table, _)): &(&u32, &(Slot, u64))| is_native(table.id);
        let mut stale: Vec<(u32, u32)> = self.above.iter().filter(apart).filter_map(behind).collect();
        for (below, (block, place)) in &self.above {
            let owner = if is_native(block.id) { self.owner(ground, *block) } else { Some(*block) };
            if let Some(owner) = owner.filter(|owner| owner.id != block.id || is_native(*below))
                && chain::is_left(ground, (owner, *block), (*below, *place))
            {
                stale.push((block.id, *below));
            }
        }
        stale
    }

    /// The object whose way down goes through a block, with no other object between.
    fn owner(&self, ground: &Ground<'_, '_>, block: Slot) -> Option<Slot> {
        let up = std::iter::successors(Some(block), |low| self.next(low.id).map(|(slot, _)| slot));
        up.take(LONGEST).find(|slot| object_of(ground.index.tag(slot.id)).is_some())
    }

    /// The block above, and the word there that points to this one.
    pub(crate) fn above(&self, id: u32) -> Option<(Slot, u64)> {
        self.above.get(&id).copied()
    }

    /// The block above. Of a long chain only the ends are known: there, one that is further up, held by no word.
    pub(crate) fn next(&self, id: u32) -> Option<(Slot, u64)> {
        self.above(id).or_else(|| self.skipped.get(&id).map(|slot| (*slot, 0)))
    }

    /// Each block on the way of one, with the one above it.
    pub(crate) fn up(&self, id: u32) -> impl Iterator<Item = (u32, u32)> {
        let up = std::iter::successors(Some(id), |low| self.next(*low).map(|(slot, _)| slot.id));
        up.take(LONGEST).filter_map(|low| Some((low, self.above(low)?.0.id)))
    }

    /// Whether the way of a block goes through one of some words, each told by the block that has it and the one it leads to.
    pub(crate) fn goes_through(&self, id: u32, words: &FxHashSet<(u32, u32)>) -> bool {
        let up = std::iter::successors(Some(id), |low| self.next(*low).map(|(slot, _)| slot.id));
        up.take(LONGEST).any(|low| self.above(low).is_some_and(|(slot, _)| words.contains(&(slot.id, low))))
    }

    /// The words that ways were to go through and that are gone, each as the block that had it and the one it led to.
    pub(crate) fn lost(&self) -> impl Iterator<Item = (u32, u32)> {
        self.lost.iter().map(|(below, above)| (*above, *below))
    }

    /// Whether the way of a block ends where a word is gone.
    pub(crate) fn is_lost(&self, id: u32) -> bool {
        let up = std::iter::successors(Some(id), |low| self.next(*low).map(|(slot, _)| slot.id));
        up.take(LONGEST).last().is_some_and(|end| self.lost.contains_key(&end))
    }

    /// Reads a block until the words that point to all of `below` are found: each time the first one that is no hash. Those that
    /// no word points to are given back.
    fn read(
        &mut self,
        ground: &Ground<'_, '_>,
        window: &mut Window,
        slot: Slot,
        below: Vec<Slot>,
    ) -> Vec<Slot> {
        const PIECE: u64 = 64 << 10;
        let mut missing = below;
        let filter = Filter::new(&missing);
        let parts = ground.links.holding((ground.reader, ground.index), window, slot);
        for Holding { range: (start, end), hashes } in parts.into_iter().flatten() {
            for from in (start..end).step_by(PIECE as usize) {
                if missing.is_empty() {
                    return missing;
                }
                window.words(ground.reader, (from, end.min(from + PIECE)), |at, stored| {
                    let address = unmarked(stored);
                    if !filter.may_be(address) {
                        return;
                    }
                    let place = missing.partition_point(|below| below.end <= address);
                    let hit = missing.get(place).filter(|below| below.start <= address && plausible(address));
                    if let Some(found) = hit.copied()
                        && ground.links.target(ground.index, address) == Some(found)
                    {
                        if !hashes.is_some_and(|hashes| hashes.is_at(at - start)) {
                            self.hashed.remove(&found.id);
                            missing.remove(place);
                        } else if !self.hashed.insert(found.id) {
                            return;
                        }
                        self.above.insert(found.id, (slot, at));
                    }
                });
            }
        }
        missing.retain(|below| !self.hashed.contains(&below.id));
        missing
    }
}

/// Tells most words that point to none of some blocks: one bit for each page, by its lowest digits.
struct Filter([u64; Self::WORDS]);

impl Filter {
    const WORDS: usize = 64;
    /// Longer blocks are not looked for by their pages.
    const LONGEST: u64 = 1 << 20;

    fn new(blocks: &[Slot]) -> Self {
        let mut filter = Self([0; Self::WORDS]);
        for block in blocks {
            if block.end - block.start > Self::LONGEST {
                return Self([u64::MAX; Self::WORDS]);
            }
            for page in block.start >> 12..=block.end >> 12 {
                filter.0[(page / 64) as usize % Self::WORDS] |= 1 << (page % 64);
            }
        }
        filter
    }

    #[inline]
    fn may_be(&self, address: u64) -> bool {
        let page = address >> 12;
        self.0[(page / 64) as usize % Self::WORDS] >> (page % 64) & 1 == 1
    }
}

/// The upper ends of long chains. Each chain is gone up once: wherever on it samples hang, they have the same end.
struct Tops<'c, 'a, 'b, 'g> {
    ground: &'c Ground<'a, 'b>,
    tree: &'c Tree<'g>,
    /// Blocks of an end.
    levels: usize,
    ends: Vec<Vec<Slot>>,
    /// Some of the blocks that were passed, and which end is theirs.
    passed: FxHashMap<u32, usize>,
    /// How many blocks may still be gone up.
    left: usize,
}

impl<'c, 'a, 'b, 'g> Tops<'c, 'a, 'b, 'g> {
    fn new(ground: &'c Ground<'a, 'b>, tree: &'c Tree<'g>, levels: usize) -> Self {
        Self { ground, tree, levels, ends: Vec::new(), passed: FxHashMap::default(), left: MOST_STEPS }
    }

    /// Whether a block is one of those that are remembered: the same ones whoever passes, one of 64.
    fn is_mark(id: u32) -> bool {
        id.wrapping_mul(0x9e37_79b1) >> 26 == 0
    }

    /// The last blocks of the way that goes on from `from`; none where it is too long.
    fn of(&mut self, from: Slot) -> Vec<Slot> {
        let (mut low, mut steps, mut marks) = (from, 0, Vec::new());
        let mut last = std::collections::VecDeque::new();
        let known = loop {
            let known = self.passed.get(&low.id).copied();
            let is_end =
                || self.tree.frame(low.id).is_some() || low.id != from.id && is_class(self.ground, low);
            if known.is_some() || is_end() {
                break known;
            }
            let Some(above) = self.tree.above(low.id).and_then(|id| self.ground.index.slot(id)) else {
                break None;
            };
            if self.left == 0 {
                return Vec::new();
            }
            self.left -= 1;
            if Self::is_mark(low.id) {
                marks.push((steps, low.id));
            }
            steps += 1;
            if last.len() == self.levels {
                last.pop_front();
            }
            last.push_back(above);
            low = above;
        };
        let end = known.unwrap_or_else(|| {
            self.ends.push(last.into());
            self.ends.len() - 1
        });
        // Of those that are near the end it has more than what is above them.
        let far = marks.iter().filter(|(at, _)| known.is_some() || at + self.levels <= steps);
        self.passed.extend(far.map(|(_, id)| (*id, end)));
        self.ends[end].clone()
    }
}

/// A climb ends at a class.
fn is_class(ground: &Ground<'_, '_>, slot: Slot) -> bool {
    let found = object_of(ground.index.tag(slot.id)).and_then(|kind| ground.types.get(kind));
    found.is_some_and(|found| found.family() == Family::Type)
}
