//! By which word each block on the way up from the samples is held: every block above is read once, however many of the
//! samples it holds. A list of millions would otherwise be read for each of them.

use crate::climb::{Climb, Ground};
use crate::index::{Slot, object_of};
use crate::links::unmarked;
use crate::reader::{Window, plausible};
use crate::tree::Tree;
use crate::types::Family;
use rustc_hash::{FxHashMap, FxHashSet};

/// For a block the one above it, and the word there that points to it.
pub(crate) struct Ways {
    above: FxHashMap<u32, (Slot, u64)>,
    /// Whether the budget of reads ended it.
    pub(crate) cut: bool,
}

impl Ways {
    /// The ways of all samples of a climb.
    pub(crate) fn find(
        ground: &Ground<'_, '_>,
        tree: &Tree<'_>,
        climb: &Climb,
        levels: usize,
        limit: u64,
    ) -> Self {
        let mut held: FxHashMap<u32, Vec<Slot>> = FxHashMap::default();
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        for sample in climb.nodes.iter().map(|node| node.slot) {
            let mut slot = sample;
            for _ in 0..levels {
                if !seen.insert(slot.id) || tree.frame(slot.id).is_some() {
                    break;
                }
                let Some(above) = tree.above(slot.id).and_then(|id| ground.index.slot(id)) else { break };
                held.entry(above.id).or_default().push(slot);
                if is_class(ground, above) {
                    break;
                }
                slot = above;
            }
        }
        let mut ways = Self { above: FxHashMap::default(), cut: false };
        let mut window = Window::new(64 << 10);
        for (above, mut below) in held {
            if ground.reader.effort() > limit {
                ways.cut = true;
                break;
            }
            below.sort_unstable_by_key(|slot| slot.start);
            if let Some(slot) = ground.index.slot(above) {
                ways.read(ground, &mut window, slot, below);
            }
        }
        ways
    }

    /// The block above, and the word there that points to this one.
    pub(crate) fn above(&self, id: u32) -> Option<(Slot, u64)> {
        self.above.get(&id).copied()
    }

    /// Reads a block until the words that point to all of `below` are found: each time the first one.
    fn read(&mut self, ground: &Ground<'_, '_>, window: &mut Window, slot: Slot, below: Vec<Slot>) {
        const PIECE: u64 = 64 << 10;
        let mut missing = below;
        let parts = ground.links.holding((ground.reader, ground.index), window, slot);
        for (start, end) in parts.into_iter().flatten() {
            for from in (start..end).step_by(PIECE as usize) {
                if missing.is_empty() {
                    return;
                }
                window.words(ground.reader, (from, end.min(from + PIECE)), |at, stored| {
                    let address = unmarked(stored);
                    let place = missing.partition_point(|below| below.end <= address);
                    let hit = missing.get(place).filter(|below| below.start <= address && plausible(address));
                    if let Some(found) = hit.copied()
                        && ground.links.target(ground.index, address) == Some(found)
                    {
                        self.above.insert(found.id, (slot, at));
                        missing.remove(place);
                    }
                });
            }
        }
    }
}

/// A climb ends at a class.
fn is_class(ground: &Ground<'_, '_>, slot: Slot) -> bool {
    let found = object_of(ground.index.tag(slot.id)).and_then(|kind| ground.types.get(kind));
    found.is_some_and(|found| found.family() == Family::Type)
}
