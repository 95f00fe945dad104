//! Which Python type owns a block of native memory: the one whose object is nearest to it by pointers.
//!
//! A search in width from all objects at once, through blocks that are no objects. It knows nothing of numpy,
//! Pillow or torch. Text, digits and bytes are barred as sources: data there can look like pointers.
//! Depth does not help: a search in depth gave 38 MB of weights to the wrong type.

mod pools;

use crate::beside::{Beside, Turn};
use crate::claims::{Claims, place};
use crate::edges::{Edges, Graph, Part};
use crate::frontier::Frontier;
use crate::index::{Index, Leads, Look, Met, Near, Pool, RAW, Reach, Slot, Wanted, object_of, owner_of};
use crate::links::{HEAD, Links, Role, unmarked};
use crate::names::Hashes;
use crate::natives::{self, Natives};
use crate::presample::Samples;
use crate::reader::{Reader, Window, plausible, word};
use crate::suspects::{LARGEST_TABLE, MOST_FOUND, Place};
use crate::tags::PoolTags;
use crate::types::Types;
use std::ops::Range;

/// Larger raw blocks are read on only if they look like tables of pointers.
const WHOLE: u64 = 64 << 10;
/// One word of this many must be a pointer for a large block to be read on.
const DENSITY: u64 = 8;
/// The part of own memory for what blocks that are no objects lead to.
const NATIVES_SHARE: u64 = 4;
/// Levels of the search; a chain of native records can be long.
const MOST_LEVELS: usize = 4096;

/// What the search cost and reached.
pub(crate) struct Owned {
    pub(crate) levels: u64,
    /// Whether the budget of reads ended it.
    pub(crate) cut: bool,
    /// Where names that people suspect stand in tables.
    pub(crate) places: Vec<Place>,
    /// Which block leads to which, where that was asked for.
    pub(crate) graph: Option<Graph>,
    /// Blocks that containers have their entries in.
    pub(crate) tables: Frontier,
}

/// What is known so far.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a, 'b> {
    pub(crate) reader: &'b Reader<'a>,
    pub(crate) index: &'b Index,
    pub(crate) types: &'b Types<'a>,
    pub(crate) links: &'b Links,
}

/// Marks every raw block that an object leads to with the type of its owner, and remembers who leads to whom.
pub(crate) struct Search {
    claims: Claims,
    /// An empty one, for the level after.
    spare: Frontier,
    /// Raw blocks of pools that lead to raw blocks: those are claimed when it is known who owns the first.
    again: Frontier,
    /// What blocks that are no objects and not in pools lead to.
    natives: Natives,
    window: Window,
    edges: Option<Edges>,
    samples: Samples,
    found: Owned,
    /// Whether a word led into a pool that was not read yet, and the blocks that had one.
    unread: bool,
    late: Frontier,
    /// The pools at hand, those that were read and come next, and whose turn it is.
    beside: Beside,
    next: Beside,
    turn: Turn,
    /// Blocks that are not in pools: they have the lowest numbers.
    outside: u32,
    /// Where a word can lead that matters.
    reach: Reach,
    /// From this block on none was followed, though some were read.
    ahead: u32,
    phase: Phase,
    /// Where following new tables of containers ends.
    limit: u64,
}

/// What is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Pools, the oldest first.
    Pools,
    /// Pools that led to ones which were not read yet.
    Late,
    /// All that is not in pools, in the order of its numbers.
    Rest,
}

/// What is being read: a block, the type that owns what it leads to, and where its list belongs if it has one.
#[derive(Clone, Copy)]
struct Source {
    id: u32,
    /// Nobody knows yet who owns a raw block of a pool.
    kind: Option<u32>,
    part: Option<Part>,
    role: Role,
    /// Nothing behind this is read ahead.
    bound: u64,
}

impl Search {
    /// `remember` is own memory for remembering who leads to whom, where that is asked for; `most` is all that may be used.
    pub(crate) fn new(remember: Option<u64>, most: u64, limit: u64, samples: Samples) -> Self {
        Self {
            claims: Claims::default(),
            spare: Frontier::default(),
            again: Frontier::default(),
            natives: Natives::new(most / NATIVES_SHARE),
            window: Window::for_scattered(64 << 10),
            edges: remember.map(Edges::new),
            samples,
            found: Owned {
                levels: 0,
                cut: false,
                places: Vec::new(),
                graph: None,
                tables: Frontier::default(),
            },
            unread: false,
            late: Frontier::default(),
            beside: Beside::default(),
            next: Beside::default(),
            turn: Turn::Never,
            outside: 0,
            reach: Reach::default(),
            ahead: u32::MAX,
            phase: Phase::Pools,
            limit,
        }
    }

    /// All that is not in pools was added to the index.
    pub(crate) fn begin(&mut self, around: Around<'_, '_>) {
        self.outside = around.index.slots() as u32;
        self.samples.take(around.index, around.types);
        self.grow(around.index);
    }

    /// A pool was added to the index.
    pub(crate) fn added(&mut self, pool: &Pool, tags: &PoolTags, types: &Types<'_>) {
        self.samples.take_pool(pool, tags, types);
    }

    /// Some pools were added to the index and are going to be followed.
    pub(crate) fn grow(&mut self, index: &Index) {
        let slots = index.slots();
        self.claims.grow(slots);
        self.again.grow(slots);
        self.late.grow(slots);
        if let Some(edges) = self.edges.as_mut() {
            edges.grow(slots);
            self.samples.ask(edges);
        }
    }

    /// Pools from `start` to `end` that were added are going to be followed after those at hand, each of `size` bytes.
    pub(crate) fn beside(&mut self, range: (u64, u64), size: u64) {
        self.next.begin(range, size);
    }

    /// One of them.
    pub(crate) fn expect(&mut self, links: &Links, pool: &Pool, tags: &PoolTags) {
        self.next.add(pool, tags, |tag| Turn::of(links, tag));
        let Range { start, end } = pool.blocks();
        if let Some(edges) = self.edges.as_ref().filter(|edges| edges.some_worth(start, end)) {
            let asked = (start..end).filter(|id| edges.is_worth(*id));
            asked.for_each(|id| self.next.ask(pool, id - start));
        }
    }

    /// Pools whose blocks have these numbers are followed now.
    pub(crate) fn at_hand(&mut self, around: Around<'_, '_>, blocks: Range<u32>) {
        self.reach = around.index.reach_with(around.types.names.range());
        self.ahead = blocks.end;
        self.edges.iter_mut().for_each(|edges| edges.begin(blocks.clone()));
    }

    /// All pools at hand were followed: the next ones are now.
    pub(crate) fn step(&mut self) {
        std::mem::swap(&mut self.beside, &mut self.next);
        self.next.begin((0, 0), 1);
    }

    /// Whether blocks of one of them have a turn.
    pub(crate) fn has(&self, pool: &Pool, turn: Turn) -> bool {
        self.beside.has(pool, turn)
    }

    /// All pools that are looked at together were followed: what is known of each is written down.
    pub(crate) fn settle(&mut self, index: &mut Index, pools: impl Iterator<Item = (Pool, Leads)>) {
        self.edges.iter_mut().for_each(|edges| edges.keep(Part::Pools, self.outside));
        for (pool, leads) in pools {
            let Range { start, end } = pool.blocks();
            let worth = self.edges.as_ref().is_some_and(|edges| edges.some_worth(start, end));
            index.settle(&pool, leads, worth);
        }
    }

    /// The entries of a container whose table is no block: nobody owns it, but what it leads to is held.
    fn new_table(&mut self, around: Around<'_, '_>, range: (u64, u64), from: Source) {
        let mut window = std::mem::replace(&mut self.window, Window::new(0));
        let from = Source { kind: None, role: Role::Entries, ..from };
        window.words(around.reader, range, |_, stored| {
            self.follow(&around, &from, unmarked(stored));
        });
        self.window = window;
    }

    /// Claims what a word leads to, and remembers it.
    #[allow(
        clippy::inline_always,
        reason = "most words are no pointers: a call for each is a twentieth of a scan"
    )]
    #[inline(always)]
    fn follow(&mut self, around: &Around<'_, '_>, from: &Source, stored: u64) {
        let address = unmarked(stored);
        if plausible(address)
            && around.index.covers(address)
            && let Some(look) = around.index.look(address)
        {
            self.pointer(around, from, stored, look);
        }
    }

    #[inline(never)]
    fn pointer(&mut self, around: &Around<'_, '_>, from: &Source, stored: u64, look: Look) {
        let Around { index, types, links, .. } = *around;
        let address = look.address;
        // A pointer with a mark other than that of an instance's values (3.12) holds, but owns nothing.
        let owns = stored & 7 == 7 || stored.trailing_zeros() >= 2;
        let edges = self.edges.as_mut().zip(from.part);
        let wanted = if edges.is_some() { Wanted::All } else { Wanted::Raw };
        match index.meet(look, wanted) {
            Met::Nothing => {}
            Met::Unread => self.unread = true,
            Met::Block { id, .. } if id >= self.ahead => self.unread = true,
            Met::Block { id, start, tag, known } if tag == RAW || owner_of(tag).is_some() => {
                match (from.role, from.kind) {
                    (Role::Any, Some(kind)) if owns => {
                        self.claims.claim(around, (id, place((index, types), (id, start), address)), kind);
                    }
                    (Role::Any, None) if owns && self.phase == Phase::Rest => {
                        self.natives.push(from.id, id, place((index, types), (id, start), address));
                        return;
                    }
                    (Role::Any, None) if owns => self.again.insert(from.id),
                    (Role::Table, Some(kind)) if owns => self.claims.table(index, id, kind),
                    _ => {}
                }
                if let Some((edges, part)) = edges.filter(|_| from.role != Role::Entries)
                    && match (known, self.turn) {
                        (true, _) => edges.is_worth(id),
                        (false, Turn::Containers) => edges.may_be_worth(id),
                        (false, _) => true,
                    }
                {
                    edges.push(part, from.id, id);
                }
            }
            Met::Block { id, start, tag, known } => {
                if let Some((edges, part)) = edges
                    && links.holds_at(start, tag, address)
                {
                    let known = known || self.phase == Phase::Rest && id <= from.id;
                    let leads = || {
                        object_of(tag).and_then(|kind| links.get(kind)).is_some_and(|lead| !lead.is_leaf())
                    };
                    if edges.is_worth(id) || !known && leads() {
                        edges.push(part, from.id, id);
                    }
                }
            }
        }
    }

    /// All pools were read. Goes over what they left: blocks that led to pools which came later, and objects elsewhere.
    pub(crate) fn rest<'a>(
        &mut self,
        reader: &Reader<'a>,
        index: &mut Index,
        (types, links): (&Types<'a>, &Links),
    ) {
        (self.phase, self.turn) = (Phase::Late, Turn::Never);
        self.ahead = u32::MAX;
        self.beside.begin((0, 0), 1);
        self.reach = index.reach_with(types.names.range());
        self.late(Around { reader, index, types, links });
        self.forget_dead_ends(index);
        let others = index.outside_pools();
        (self.phase, self.turn) = (Phase::Rest, Turn::Never);
        let around = Around { reader, index, types, links };
        for number in &others {
            index.for_each_object_in(*number, |slot, kind, end| self.object(around, slot, kind, end));
        }
        for number in others {
            index.for_each_native(number, |slot, end| self.native(around, slot, end));
        }
    }

    /// A block that is no object and not in a pool.
    fn native(&mut self, around: Around<'_, '_>, slot: Slot, bound: u64) {
        let table = self.claims.is_table(slot.id);
        let role = if table { Role::Entries } else { Role::Any };
        let part = Some(Part::Natives);
        let from = Source { id: slot.id, kind: None, part, role, bound };
        let (end, keys) = self.end(around, slot, bound, table);
        let hashes = if table { self.hashes(around, slot, bound) } else { None };
        match hashes {
            Some(hashes) => self.entries(around, (slot.start, end), from, hashes),
            None => self.range(around, (slot.start, end), from),
        }
        let leads = self.natives.end(slot.id);
        if let Some((edges, part)) = self.edges.as_mut().zip(part) {
            edges.end(part, slot.id);
            if leads {
                edges.has_list(slot.id);
            }
        }
        // Also where it leads nowhere that is known: in the table that instances share, all names may be the interpreter's own.
        if keys && end - slot.start <= LARGEST_TABLE {
            self.names(around, slot.start, end - slot.start);
        }
    }

    /// Where the table of a dict or a set has the hashes of its keys.
    fn hashes(&mut self, around: Around<'_, '_>, slot: Slot, bound: u64) -> Option<Hashes> {
        let kind = owner_of(around.index.tag(slot.id))?;
        let size = slot.end - slot.start;
        let head = self.window.at(around.reader, slot.start, HEAD.min(size as usize), bound)?;
        around.links.hashes(kind, head, size)
    }

    /// Remembers what the entries of a table lead to: no hash of a key does, also where it is an address (the hash of a number is
    /// the number, and `id(x)` is where x is).
    fn entries(&mut self, around: Around<'_, '_>, (start, end): (u64, u64), from: Source, hashes: Hashes) {
        let mut window = std::mem::replace(&mut self.window, Window::new(0));
        window.words_before(around.reader, (start, end), from.bound, |at, stored| {
            if !hashes.is_at(at - start) {
                self.follow(&around, &from, stored);
            }
        });
        self.window = window;
    }

    /// Where the words of a block end that is no object, and whether it could be the table of a dict.
    fn end(&mut self, around: Around<'_, '_>, slot: Slot, bound: u64, table: bool) -> (u64, bool) {
        let size = (slot.end - slot.start) & !7;
        if size > WHOLE {
            let whole = table || self.mostly_pointers(around, slot) || self.pointers_inside(around, slot);
            return (slot.start + if whole { size } else { 4096 }, whole);
        }
        let Some(head) = self.window.at(around.reader, slot.start, HEAD.min(size as usize), bound) else {
            return (slot.start + size, table);
        };
        if around.types.is_gone(head) {
            return (slot.start, false);
        }
        let first = word(head, around.types.skip());
        let length = around.links.length(head, size).unwrap_or(size).min(size) & !7;
        // Pointers and counts have nothing in their upper end.
        if first >> 48 != 0 && !table {
            let block = self.window.at(around.reader, slot.start, size as usize, bound);
            let block = block.and_then(|block| block.get(..size as usize));
            let text = block.and_then(|block| around.links.text_length(block));
            return (slot.start + text.map_or(length, |text| text as u64), false);
        }
        // A table begins with how many use it: no pointer.
        (slot.start + length, table || (1..1 << 32).contains(&first))
    }

    /// Once is enough: what leads to what was forgotten takes little room, and to find it takes as long each time.
    fn forget_dead_ends(&mut self, index: &mut Index) {
        let Some(edges) = self.edges.as_mut() else { return };
        edges.forget_dead_ends(self.outside);
        index.settle_again(|first, end| edges.some_worth(first, end));
    }

    /// An object that is not in a pool.
    fn object(&mut self, around: Around<'_, '_>, slot: Slot, kind: u32, bound: u64) {
        let Some(lead) = around.links.get(kind).filter(|lead| !lead.is_leaf()) else { return };
        let part = Some(Part::Objects).filter(|_| lead.holds);
        let from = Source { id: slot.id, kind: Some(kind), part, role: Role::Any, bound };
        let count = lead.count_at().and_then(|at| around.reader.word(slot.start + at));
        let last = count.map_or(slot.end, |count| lead.end(slot, count));
        for part in lead.parts() {
            let (start, end) = around.links.place(part, slot);
            if start < end.min(last) {
                self.range(around, (start, end.min(last)), Source { role: part.role, ..from });
            }
        }
        if self.edges.is_some() && lead.is_container() {
            let mut head = [0; HEAD];
            let got = around.reader.cached(slot.start + lead.at, &mut head);
            if got
                && around.reader.effort() < self.limit
                && let Some(range) =
                    around.links.new_table((around.reader, around.index), &head, (slot, lead))
            {
                self.new_table(around, range, from);
            }
        }
        if let Some((edges, part)) = self.edges.as_mut().zip(from.part) {
            edges.end(part, slot.id);
        }
    }

    /// Claims what the words of a range lead to, and remembers it.
    fn range(&mut self, around: Around<'_, '_>, range: (u64, u64), from: Source) {
        let mut window = std::mem::replace(&mut self.window, Window::new(0));
        let (start, length) = (range.0, range.1 - range.0);
        let reach = self.reach;
        window.words_before(around.reader, range, from.bound, |_, stored| {
            // Many C++ records point into themselves.
            let away = || stored.wrapping_sub(start) >= length;
            if reach.may_be(stored) && away() {
                self.follow(&around, &from, stored);
            }
        });
        self.window = window;
    }

    /// Claims what blocks that are owned lead to, level by level: what was owned by objects first. It may read `most_read` bytes.
    pub(crate) fn levels(mut self, around: Around<'_, '_>, most_read: u64) -> (Owned, Samples) {
        self.spare.grow(around.index.slots());
        self.natives.finish();
        let limit = around.reader.effort().saturating_add(most_read);
        while !self.claims.next.is_empty() || self.claims.take_inside(around.index) {
            self.found.levels += 1;
            if self.found.levels as usize > MOST_LEVELS || around.reader.effort() > limit {
                self.found.cut = true;
                break;
            }
            self.level(around);
        }
        let natives = self.natives;
        let graph = self.edges.map(|edges| edges.finish(natives));
        (Owned { graph, tables: self.claims.tables, ..self.found }, self.samples)
    }

    fn level(&mut self, around: Around<'_, '_>) {
        let spare = std::mem::take(&mut self.spare);
        let mut now = std::mem::replace(&mut self.claims.next, spare);
        let (mut from, mut near) = (0, Near::default());
        let mut cursors = natives::Cursors::default();
        while let Some(id) = now.take(from) {
            from = id + 1;
            let pool = id >= self.outside;
            if self.claims.is_table(id) || pool && !self.again.contains(id) {
                continue;
            }
            let Some(kind) = owner_of(around.index.tag(id)) else { continue };
            let claims = &mut self.claims;
            let mut claim = |target, place| claims.claim(&around, (target, place), kind);
            let known = !pool && self.natives.below(id, &mut cursors, &mut claim);
            if !known && let Some(slot) = around.index.slot_near(id, &mut near) {
                let bound = around.index.end_near(&near);
                let (end, _) = self.end(around, slot, bound, false);
                let from = Source { id, kind: Some(kind), part: None, role: Role::Any, bound };
                self.range(around, (slot.start, end), from);
            }
        }
        self.spare = now;
    }

    /// Remembers where suspected names stand in a table that was just read.
    fn names(&mut self, around: Around<'_, '_>, start: u64, size: u64) {
        let Self { window, found, .. } = self;
        let Around { reader, types, .. } = around;
        if types.names.is_empty() || found.places.len() >= MOST_FOUND {
            return;
        }
        window.words(reader, (start, start + size), |at, stored| {
            if let Some(suspect) = types.names.get(stored) {
                found.places.push(Place { suspect, value: at + 8, table: start });
            }
        });
    }

    /// Whether the beginning of a large block is a table of pointers, not data.
    fn mostly_pointers(&mut self, around: Around<'_, '_>, slot: Slot) -> bool {
        let Some(bytes) = self.window.at(around.reader, slot.start, 4096, u64::MAX) else { return false };
        let words = (0..512).map(|number| word(bytes, number * 8)).filter(|word| *word != 0);
        let (mut all, mut good) = (0, 0);
        for address in words {
            all += 1;
            good += u64::from(plausible(address) && around.index.find(address).is_some());
        }
        all > 0 && good * DENSITY >= all
    }

    /// Whether a large block has pointers further in, where a large dict's entries are.
    fn pointers_inside(&mut self, around: Around<'_, '_>, slot: Slot) -> bool {
        let length = (slot.end - slot.start) & !7;
        [0, length / 2, length / 8 * 5].iter().any(|offset| {
            let place = (slot.start + offset) & !7;
            let Some(bytes) = self.window.at(around.reader, place, 512, slot.end) else { return false };
            let words = (0..64).map(|number| word(bytes, number * 8)).filter(|word| *word != 0);
            // Numbers of a program's code look like addresses, but nothing is there.
            let leads = |address: u64| plausible(address) && around.index.is_known(address);
            let (all, good) =
                words.fold((0, 0), |(all, good), address| (all + 1, good + u32::from(leads(address))));
            good * 4 > all
        })
    }
}
