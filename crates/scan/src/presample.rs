//! Some blocks of every type, drawn before it is known which types matter: by chance, by bytes, and alike in every scan (`seen.rs`).
//!
//! Why before: what leads nowhere is not remembered by `edges.rs`, and a text or a number leads nowhere. Those that a climb
//! may start from are drawn while the objects are counted, and asked for. After an earlier scan these are only such as are new.

use crate::edges::Edges;
use crate::index::{Index, Pool, Slot, Tag, object_of};
use crate::seen::{self, Seen};
use crate::tags::PoolTags;
use crate::types::Types;
use crate::{Settings, TypeUse};
use rustc_hash::FxHashMap;

/// Objects of a type that a climb may start from.
pub(crate) const MOST: usize = 64;
/// As many numbers are drawn from.
const NUMBERS: f32 = 4_294_967_296.0;
/// A type that holds less than this, or than one part in so many of what all types hold, is not remembered for a later scan.
const WORTH: u64 = 64 << 10;
const WORTH_PART: u64 = 1000;
/// Addresses that are remembered of all types together.
const MOST_SEEN: usize = 64 << 10;

/// A number that an address decides, as even as if drawn.
fn drawn(address: u64) -> u32 {
    let mixed = (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) as u32
}

/// The same for a block of a pool: those of one pool are spread evenly, and the ones with the smallest numbers are found without
/// looking at the others.
fn drawn_in(pool: u32, number: u32) -> u32 {
    number.wrapping_add(pool).reverse_bits()
}

/// A block that was drawn. The smaller its rank, the sooner it is taken.
#[derive(Clone, Copy, Debug)]
struct Lot {
    rank: f32,
    bytes: f32,
    id: u32,
}

impl Lot {
    fn new(id: u32, drawn: u32, bytes: u64) -> Self {
        let bytes = bytes as f32;
        Self { rank: drawn as f32 * bytes.recip(), bytes, id }
    }
}

/// Blocks with the smallest lots.
#[derive(Clone, Debug)]
pub(crate) struct Lowest {
    most: u32,
    /// All with a lot below this are kept.
    bound: f32,
    kept: Vec<Lot>,
}

impl Lowest {
    fn new(most: usize) -> Self {
        Self { most: most as u32, bound: f32::INFINITY, kept: Vec::new() }
    }

    /// Says whether it was taken. Those that go for it are handed to `gone`.
    #[inline]
    fn offer(&mut self, lot: Lot, gone: impl FnMut(u32)) -> bool {
        let low = lot.rank < self.bound;
        if low {
            self.kept.push(lot);
            if self.kept.len() >= 2 * self.most as usize {
                self.cut(gone);
            }
        }
        low
    }

    /// Keeps no more than may be. Hands the others to `gone`.
    fn cut(&mut self, gone: impl FnMut(u32)) {
        let most = self.most as usize;
        if most < self.kept.len() {
            let (_, first, _) =
                self.kept.select_nth_unstable_by(most, |one, other| one.rank.total_cmp(&other.rank));
            self.bound = first.rank;
            self.kept.drain(most..).map(|lot| lot.id).for_each(gone);
        }
    }

    /// Takes in what another kept: what that did not keep is not known.
    fn join(&mut self, other: &Self) {
        self.kept.extend_from_slice(&other.kept);
        self.lower(other.bound);
    }

    /// Forgets those from a lot on.
    fn lower(&mut self, bound: f32) {
        self.bound = self.bound.min(bound);
        self.kept.retain(|lot| lot.rank < self.bound);
    }

    /// The bytes that one stands for at least: what is smaller was drawn by chance.
    pub(crate) fn unit(&self) -> f64 {
        f64::from(NUMBERS / self.bound)
    }

    /// The bytes that one stands for.
    fn weight(&self, lot: &Lot) -> f64 {
        self.unit().max(f64::from(lot.bytes))
    }

    /// Bytes of all that they were drawn from, as far as they tell.
    pub(crate) fn bytes(&self) -> f64 {
        self.kept.iter().map(|lot| self.weight(lot)).sum()
    }

    /// About `count` of the blocks, evenly by bytes, and the bytes that each stands for.
    pub(crate) fn blocks(&self, index: &Index, count: usize) -> Vec<(Slot, f64)> {
        let mut lots: Vec<&Lot> = self.kept.iter().collect();
        lots.sort_unstable_by_key(|lot| lot.id);
        let step = self.step(count);
        let (mut passed, mut taken) = (0.0, 0.0);
        let some = |lot: &Lot| {
            passed += self.weight(lot) / step;
            let times = passed.round() - taken;
            taken += times;
            index.slot(lot.id).filter(|_| times > 0.0).map(|slot| (slot, times * step))
        };
        lots.into_iter().filter_map(some).collect()
    }

    /// Bytes from one to the next of so many.
    pub(crate) fn step(&self, count: usize) -> f64 {
        (self.bytes() / count.max(1) as f64).max(1.0)
    }
}

/// What is kept of a type.
#[derive(Clone, Debug)]
struct Kind {
    /// Its objects, and the blocks it owns that are not in pools.
    objects: Lowest,
    owned: Lowest,
    /// Objects to climb from: new ones, where it is known which are.
    some: Lowest,
    /// What the scan before saw of it.
    before: Option<u32>,
}

/// What is kept of all types.
pub(crate) struct Samples {
    /// By type, ascending.
    kinds: Vec<Kind>,
    /// What the scan before saw of a type, by its module and name.
    before: Vec<(String, String, Seen)>,
    /// Taken lately, to be asked for.
    fresh: Vec<u32>,
    /// Taken once, and not kept.
    gone: Vec<u32>,
}

/// Blocks of a type to climb from.
pub(crate) struct Drawn {
    pub(crate) objects: Lowest,
    pub(crate) owned: Lowest,
    /// Whether they are only such as were not there in the scan before.
    pub(crate) new: bool,
}

impl Samples {
    /// None yet.
    pub(crate) fn new(settings: &Settings) -> Self {
        let rows = settings.before.iter().flatten().filter(|row| !row.seen.is_empty());
        let mut before: Vec<_> =
            rows.map(|row| (row.module.clone(), row.name.clone(), row.seen.clone())).collect();
        before.sort_unstable_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        Self { kinds: Vec::new(), before, fresh: Vec::new(), gone: Vec::new() }
    }

    fn grow(&mut self, types: &Types<'_>) {
        for found in types.all.iter().skip(self.kinds.len()) {
            let wanted = (&found.module, &found.name);
            let before = self.before.binary_search_by(|(module, name, _)| (module, name).cmp(&wanted));
            self.kinds.push(Kind {
                objects: Lowest::new(seen::MOST),
                owned: Lowest::new(seen::MOST),
                some: Lowest::new(MOST),
                before: before.ok().map(|at| at as u32),
            });
        }
    }

    /// Goes over all objects that are there, none of them in a pool.
    pub(crate) fn take(&mut self, index: &Index, types: &Types<'_>) {
        self.grow(types);
        index.for_each_object(|slot, tag, _| {
            self.offer(tag, slot.start, Lot::new(slot.id, drawn(slot.start), slot.end - slot.start));
        });
    }

    /// Goes over the objects of one more pool.
    pub(crate) fn take_pool(&mut self, pool: &Pool, blocks: &PoolTags, types: &Types<'_>) {
        self.grow(types);
        let (tags, bytes) = (&blocks.tags, u64::from(pool.block));
        let bounds = blocks.few().map(|few| few.map(|tag| self.bound(tag)));
        let bound = bounds.map_or(f32::INFINITY, |bounds| bounds.fold(0.0, f32::max));
        let first = drawn(pool.start);
        // What could be taken has a number that begins with so many zeroes.
        let step = 1_u64 << ((bound * bytes as f32) as u32).leading_zeros();
        let from = u64::from(first.wrapping_neg()) & (step - 1);
        for number in (from..tags.len() as u64).step_by(step as usize) {
            let number = number as u32;
            let lot = Lot::new(pool.first + number, drawn_in(first, number), bytes);
            self.offer(tags[number as usize], pool.start_of(number), lot);
        }
    }

    /// From which lot on no object with a tag is taken.
    fn bound(&self, tag: Tag) -> f32 {
        let kind = object_of(tag).and_then(|kind| self.kinds.get(kind as usize));
        kind.map_or(0.0, |kind| {
            let seen = kind.before.map_or(f32::INFINITY, |at| self.before[at as usize].2.bound());
            kind.objects.bound.max(kind.some.bound.min(seen))
        })
    }

    #[inline]
    fn offer(&mut self, tag: Tag, start: u64, lot: Lot) {
        let Some(kind) = object_of(tag).and_then(|kind| self.kinds.get_mut(kind as usize)) else { return };
        kind.objects.offer(lot, |_| {});
        let seen = kind.before.map(|at| &self.before[at as usize].2);
        let new = seen.is_none_or(|seen| lot.rank < seen.bound() && !seen.has(start));
        if new && kind.some.offer(lot, |id| self.gone.push(id)) {
            self.fresh.push(lot.id);
        }
    }

    /// A type owns a block that is not in a pool, `here` bytes of it resident.
    pub(crate) fn owned(&mut self, kind: u32, slot: Slot, here: u64) {
        if let Some(kind) = self.kinds.get_mut(kind as usize).filter(|_| here > 0) {
            kind.owned.offer(Lot::new(slot.id, drawn(slot.start), here), |_| {});
        }
    }

    /// Those that were taken since the last time are asked for, and some no longer are.
    pub(crate) fn ask(&mut self, edges: &mut Edges) {
        self.fresh.drain(..).for_each(|id| edges.ask(id));
        self.gone.drain(..).for_each(|id| edges.ask_no_more(id));
    }

    /// Blocks to climb from, of types with one name.
    pub(crate) fn draw(&self, index: &Index, kinds: &[u32]) -> Drawn {
        let [mut objects, mut owned] = [MOST, seen::MOST].map(Lowest::new);
        let mut new = true;
        for kind in kinds.iter().filter_map(|kind| self.kinds.get(*kind as usize)) {
            objects.join(&kind.some);
            owned.join(&kind.owned);
            let seen = kind.before.map(|at| &self.before[at as usize].2);
            new &= seen.is_some();
            if let Some(seen) = seen {
                objects.lower(seen.bound());
                owned.lower(seen.bound());
                owned.kept.retain(|lot| index.slot(lot.id).is_some_and(|slot| !seen.has(slot.start)));
            }
        }
        objects.cut(|_| {});
        owned.cut(|_| {});
        Drawn { objects, owned, new }
    }

    /// Writes down for a later scan what was seen of each type that holds much.
    pub(crate) fn remember(&self, index: &Index, types: &Types<'_>, rows: &mut [TypeUse]) {
        let all: u64 = rows.iter().map(|row| row.bytes().0).sum();
        let worth = WORTH.max(all / WORTH_PART);
        let count = rows.partition_point(|row| row.bytes().0 >= worth);
        let kinds = kinds_of(types, rows[..count].iter());
        let mut room = MOST_SEEN;
        for (row, kinds) in rows.iter_mut().zip(kinds) {
            let mut lowest = Lowest::new(seen::MOST);
            for kind in kinds.iter().filter_map(|kind| self.kinds.get(*kind as usize)) {
                lowest.join(&kind.objects);
                lowest.join(&kind.owned);
            }
            lowest.cut(|_| {});
            let Some(left) = room.checked_sub(lowest.kept.len()) else { break };
            room = left;
            let starts = lowest.kept.iter().filter_map(|lot| index.slot(lot.id)).map(|slot| slot.start);
            row.seen = Seen::new(lowest.bound, starts.collect());
        }
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        let kept = |kind: &Kind| {
            [&kind.objects, &kind.owned, &kind.some]
                .iter()
                .map(|lowest| lowest.kept.capacity())
                .sum::<usize>()
        };
        let lots: usize = self.kinds.iter().map(kept).sum();
        (lots * size_of::<Lot>() + self.kinds.capacity() * size_of::<Kind>()) as u64
    }
}

/// For each row the types that make it up: several can have one name.
pub(crate) fn kinds_of<'r>(types: &Types<'_>, rows: impl Iterator<Item = &'r TypeUse>) -> Vec<Vec<u32>> {
    let places: FxHashMap<(&str, &str), usize> =
        rows.enumerate().map(|(at, row)| ((row.module.as_str(), row.name.as_str()), at)).collect();
    let mut kinds = vec![Vec::new(); places.len()];
    for (kind, found) in (0..).zip(&types.all) {
        if let Some(at) = places.get(&(found.module.as_str(), found.name.as_str())) {
            kinds[*at].push(kind);
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(sizes: impl Iterator<Item = u64>, most: usize) -> Lowest {
        let mut lowest = Lowest::new(most);
        let mut at = 0x7f00_0000_0000;
        for (id, bytes) in (0..).zip(sizes) {
            lowest.offer(Lot::new(id, drawn(at), bytes), |_| {});
            at += bytes.next_multiple_of(16);
        }
        lowest.cut(|_| {});
        lowest
    }

    #[test]
    fn every_part_of_memory_has_its_share_by_bytes() {
        for count in [1_000_u32, 30_000, 1_000_000] {
            let lowest = sampled((0..count).map(|_| 48), seen::MOST);
            let last = lowest.kept.iter().filter(|lot| lot.id >= count / 10 * 7).count();
            let share = last as f64 / lowest.kept.len() as f64;
            assert!((0.25..0.35).contains(&share), "{share} of {count}");
            let bytes = lowest.bytes() / f64::from(count * 48);
            assert!((0.9..1.1).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn a_few_large_ones_weigh_more_than_many_small_ones() {
        let lowest = sampled((0..50_020_u32).map(|id| if id < 50_000 { 40 } else { 10 << 20 }), MOST);
        let large = lowest.kept.iter().filter(|lot| lot.id >= 50_000).count();
        assert!(large == 20 && lowest.kept.len() <= MOST, "{lowest:?}");
        let share =
            lowest.kept.iter().filter(|lot| lot.id < 50_000).map(|lot| lowest.weight(lot)).sum::<f64>();
        assert!(share / lowest.bytes() < 0.05, "{share}");
    }

    #[test]
    fn blocks_of_a_pool_are_drawn_as_others_are() {
        let mut lowest = Lowest::new(MOST);
        for pool in 0..1000_u32 {
            let first = drawn(0x7f00_0000_0000 + u64::from(pool) * (16 << 10));
            (0..300).for_each(|number| {
                lowest.offer(Lot::new(pool * 300 + number, drawn_in(first, number), 48), |_| {});
            });
        }
        lowest.cut(|_| {});
        let last = lowest.kept.iter().filter(|lot| lot.id >= 210_000).count();
        let odd = lowest.kept.iter().filter(|lot| lot.id % 2 == 1).count();
        assert!((10..30).contains(&last) && (18..46).contains(&odd), "{last} {odd}");
    }
}
