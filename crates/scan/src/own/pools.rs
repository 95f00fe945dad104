//! The blocks of pools: what they lead to, each read once, or twice where that was not read yet.

use super::{Around, Phase, Search, Source};
use crate::beside::Turn;
use crate::edges::{Edges, Part};
use crate::index::{Leads, POOL_HEAD, Pool, RAW, Slot, Tag, object_of, owner_of};
use crate::links::{Lead, Links, Role, unmarked};
use crate::names::Hashes;
use crate::reader::{plausible, word};
use crate::suspects::{MOST_FOUND, Place};
use crate::tags::NONE;

impl Search {
    /// Follows what the blocks of a pool lead to that have this turn: their tags, and the bytes of the pool as far as they are there.
    /// Gives which lead somewhere. Blocks that led into a pool that was not read yet are put off to the end.
    pub(crate) fn pool(
        &mut self,
        around: Around<'_, '_>,
        pool: &Pool,
        (tags, bytes): (&[Tag], &[u8]),
        turn: Turn,
    ) -> Leads {
        self.turn = turn;
        let Some((turns, places)) = self.beside.lend(pool) else { return Leads::Objects };
        let mut leads = Leads::Nowhere;
        let mut plans = Plans::new(pool);
        for (number, its) in turns[places].iter().enumerate() {
            if *its != turn {
                continue;
            }
            let (Some(tag), Some(block)) = (tags.get(number), block_of(pool, bytes, number)) else { break };
            let id = pool.first + number as u32;
            let plan = plans.of(around.links, *tag);
            if plan.is_short && self.is_quiet(&around, plan, block) {
                leads = leads.max(plan.leads);
                if turn != Turn::Raw && !self.is_worth(id) {
                    self.beside.never(pool, number);
                }
                continue;
            }
            let before = self.drafted();
            leads = leads.max(self.block(around, pool, (number as u32, *tag), block));
            if self.unread && self.phase == Phase::Pools {
                self.put_off(id, pool.start_of(number as u32));
            } else if turn != Turn::Raw && self.drafted() == before && !self.is_worth(id) {
                self.beside.never(pool, number);
            }
        }
        self.beside.give_back(turns);
        leads
    }

    /// Whether no word of a block leads to anything that is looked for: most are so, and nothing else has to be known of them.
    #[inline]
    fn is_quiet(&self, around: &Around<'_, '_>, plan: &Plan, block: &[u8]) -> bool {
        let words = block.get(plan.from..plan.to).unwrap_or_default().as_chunks::<8>().0;
        let names = &around.types.names;
        words.iter().all(|word| {
            let stored = u64::from_le_bytes(*word);
            let address = unmarked(stored);
            let dull = || self.is_dull(address) || around.index.look(address).is_none();
            !self.reach.may_be(stored)
                || !plausible(address)
                || dull() && (plan.leads != Leads::Raw || !names.may_be(stored))
        })
    }

    /// Follows what a block of a pool leads to.
    #[inline]
    fn block(
        &mut self,
        around: Around<'_, '_>,
        pool: &Pool,
        (number, tag): (u32, Tag),
        block: &[u8],
    ) -> Leads {
        self.unread = false;
        let (id, start, bound) = (pool.first + number, pool.start_of(number), pool.end);
        let part = Some(if self.phase == Phase::Pools { Part::Pools } else { Part::Late });
        if let Some(kind) = object_of(tag) {
            let slot = Slot { id, start, end: start + u64::from(pool.block) };
            let Some(lead) = around.links.get(kind).filter(|lead| !lead.is_leaf()) else {
                return Leads::Nowhere;
            };
            let part = part.filter(|_| lead.holds);
            let from = Source { id, kind: Some(kind), part, role: Role::Any, bound };
            self.small(around, block, (slot, lead), from);
            Leads::Objects
        } else if tag == RAW || owner_of(tag).is_some() {
            self.raw(around, block, start, Source { id, kind: None, part, role: Role::Any, bound });
            Leads::Raw
        } else {
            Leads::Nowhere
        }
    }

    /// A block that begins at `start` led into a pool that was not read yet.
    fn put_off(&mut self, id: u32, start: u64) {
        self.found.places.retain(|place| place.table != start);
        self.edges.iter_mut().for_each(|edges| edges.put_off(id));
        self.late.insert(id);
    }

    #[inline]
    fn is_worth(&self, id: u32) -> bool {
        self.edges.as_ref().is_some_and(|edges| edges.is_worth(id))
    }

    #[inline]
    fn drafted(&self) -> usize {
        self.edges.as_ref().map_or(0, Edges::drafted)
    }

    /// Whether nothing is to be found at an address, by what is known of the pools at hand and the next ones.
    #[inline]
    fn is_dull(&self, address: u64) -> bool {
        self.beside.is_dull(address) || self.next.is_dull(address)
    }

    /// Follows a word of a block at hand. Most lead to others at hand, and most of those lead nowhere.
    #[inline]
    fn follow_beside(&mut self, around: &Around<'_, '_>, from: &Source, stored: u64) {
        if !self.is_dull(unmarked(stored)) {
            self.follow(around, from, stored);
        }
    }

    /// The words of an object that was read whole.
    #[inline]
    fn small(&mut self, around: Around<'_, '_>, block: &[u8], (slot, lead): (Slot, &Lead), mut from: Source) {
        let last = lead
            .count_at()
            .map_or(block.len(), |at| (lead.end(slot, word(block, at as usize)) - slot.start) as usize);
        for part in lead.parts() {
            let (start, end) = around.links.within(part, block.len());
            from.role = part.role;
            let words = block.get(start..end.min(last)).unwrap_or_default();
            for stored in words.as_chunks::<8>().0 {
                let stored = u64::from_le_bytes(*stored);
                if self.reach.may_be(stored) {
                    self.follow_beside(&around, &from, stored);
                }
            }
        }
        // What led into a pool that was not read yet is followed once more.
        if self.edges.is_some() && lead.is_container() && !(self.unread && self.phase == Phase::Pools) {
            self.container(around, block, (slot, lead), from);
        }
        if let Some((edges, part)) = self.edges.as_mut().zip(from.part) {
            edges.end(part, from.id);
        }
    }

    fn container(&mut self, around: Around<'_, '_>, block: &[u8], (slot, lead): (Slot, &Lead), from: Source) {
        let head = block.get(lead.at as usize..).unwrap_or_default();
        if around.reader.effort() < self.limit
            && let Some(range) = around.links.new_table((around.reader, around.index), head, (slot, lead))
        {
            self.new_table(around, range, from);
        }
    }

    /// The words of a raw block that was read whole.
    #[inline]
    fn raw(&mut self, around: Around<'_, '_>, block: &[u8], start: u64, from: Source) {
        let names = &around.types.names;
        let (unused, end) = around.links.values(block).unwrap_or((0, block.len()));
        let gone = around.types.is_gone(block).then_some(0);
        let mut hashes: Option<Hashes> = None;
        let length = gone.or_else(|| around.links.text_length(block)).unwrap_or_else(|| {
            let found = around.links.small_table(block, block.len() as u64);
            hashes = found.and_then(|(_, hashes)| hashes);
            found.map_or(end, |(length, _)| length as usize)
        });
        let words = block.get(unused & !7..length.min(block.len())).unwrap_or_default();
        for (number, stored) in words.as_chunks::<8>().0.iter().enumerate() {
            let stored = u64::from_le_bytes(*stored);
            let offset = (unused / 8 + number) as u64 * 8;
            if !self.reach.may_be(stored) || hashes.is_some_and(|hashes| hashes.is_at(offset)) {
                continue;
            }
            if plausible(stored)
                && let Some(suspect) = names.get(stored)
                && self.found.places.len() < MOST_FOUND
            {
                self.found.places.push(Place { suspect, value: start + offset + 8, table: start });
                self.edges.iter_mut().for_each(|edges| edges.ask(from.id));
            }
            self.follow_beside(&around, &from, stored);
        }
        if let Some((edges, part)) = self.edges.as_mut().zip(from.part) {
            edges.end(part, from.id);
        }
    }

    /// Follows the blocks that were put off.
    pub(super) fn late(&mut self, around: Around<'_, '_>) {
        let (mut late, mut from) = (Vec::new(), 0);
        while let Some(id) = self.late.take(from) {
            late.push(id);
            from = id + 1;
        }
        let mut bytes = Vec::new();
        let mut rest = late.as_slice();
        while let Some(pool) = rest.first().and_then(|id| around.index.pool_of(*id)) {
            bytes.resize((pool.end - pool.start) as usize, 0);
            let got = around.reader.fill(pool.start, &mut bytes);
            let (these, others) = rest.split_at(rest.partition_point(|id| *id < pool.blocks().end));
            for id in these {
                let number = id - pool.first;
                if let Some(block) = block_of(&pool, &bytes[..got], number as usize) {
                    self.block(around, &pool, (number, around.index.tag(*id)), block);
                }
            }
            rest = others;
        }
        if let Some(edges) = self.edges.as_mut() {
            late.iter().for_each(|id| edges.take_up(*id));
            edges.keep(Part::Late, self.outside);
        }
    }
}

/// Where blocks with one tag have words, in pools with blocks of one size.
#[derive(Clone, Copy)]
struct Plan {
    tag: Tag,
    from: usize,
    to: usize,
    leads: Leads,
    /// Whether nothing is to be done but to follow its words.
    is_short: bool,
}

/// Those of tags that came lately, by their lowest bits.
struct Plans {
    block: usize,
    lately: [Plan; LATELY],
}

/// Tags whose plans are at hand.
const LATELY: usize = 16;

impl Plans {
    fn new(pool: &Pool) -> Self {
        let none = Plan { tag: NONE, from: 0, to: 0, leads: Leads::Nowhere, is_short: false };
        Self { block: pool.block as usize, lately: [none; LATELY] }
    }

    #[inline]
    fn of(&mut self, links: &Links, tag: Tag) -> &Plan {
        let known = &mut self.lately[usize::from(tag) % LATELY];
        if known.tag != tag {
            *known = Plan::new(links, tag, self.block);
        }
        known
    }
}

impl Plan {
    fn new(links: &Links, tag: Tag, block: usize) -> Self {
        let Some(kind) = object_of(tag) else {
            return Self { tag, from: 0, to: block, leads: Leads::Raw, is_short: true };
        };
        let lead = links.get(kind);
        let places = lead.into_iter().flat_map(Lead::parts).map(|part| links.within(part, block));
        let (from, to) = places.fold((block, 0), |(from, to), place| (from.min(place.0), to.max(place.1)));
        let to = to.min(block);
        let is_short = lead.is_some_and(|lead| !lead.is_leaf() && !lead.is_container());
        Self { tag, from: from.min(to), to, leads: Leads::Objects, is_short }
    }
}

/// A block of a pool, if its bytes are there.
#[inline]
fn block_of<'a>(pool: &Pool, bytes: &'a [u8], number: usize) -> Option<&'a [u8]> {
    let size = pool.block as usize;
    let at = POOL_HEAD as usize + number * size;
    bytes.get(at..at + size)
}
