//! Which Python type owns a block of native memory: the one whose object is nearest to it by pointers.
//!
//! A search in width from all objects at once, through blocks that are no objects. It knows nothing of numpy,
//! Pillow or torch. Text, digits and bytes are barred as sources: data there can look like pointers.
//! Depth does not help: a search in depth gave 38 MB of weights to the wrong type.

use crate::edges::{Edges, Graph, Part};
use crate::frontier::Frontier;
use crate::index::{Index, Near, RAW, Slot, Tag, object_of, owned_tag, owner_of};
use crate::links::{Lead, Links, unmarked};
use crate::reader::{Reader, Window, plausible, word};
use crate::suspects::{LARGEST_TABLE, MOST_FOUND, Place};
use crate::types::{Type, Types};
use rustc_hash::FxHashMap;

/// Objects up to this size are read at once.
const SMALL: u64 = 4 << 10;
/// Blocks of this size have an inside: what owns them points to where they begin, or not far behind.
const LARGE: u64 = 64 << 10;
const BEGINNING: u64 = 4 << 10;
/// Larger raw blocks are read on only if they look like tables of pointers.
const WHOLE: u64 = 64 << 10;
/// One word of this many must be a pointer for a large block to be read on.
const DENSITY: u64 = 8;
/// Levels of the search; a chain of native records can be long.
const MOST_LEVELS: usize = 4096;

/// What the search cost and reached.
pub(crate) struct Owned {
    pub(crate) blocks: u64,
    pub(crate) levels: u64,
    /// Whether the budget of reads ended it.
    pub(crate) cut: bool,
    /// Where names that people suspect stand in tables.
    pub(crate) places: Vec<Place>,
    /// Which block leads to which, where that was asked for.
    pub(crate) graph: Option<Graph>,
}

/// Whether a range had pointers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Led {
    Nowhere,
    Somewhere,
}

/// What the search needs and how far it may go.
pub(crate) struct Begin<'a, 'b> {
    pub(crate) reader: &'b Reader<'a>,
    pub(crate) index: &'b Index,
    pub(crate) types: &'b Types<'a>,
    pub(crate) links: &'b Links,
    /// Bytes it may read after the objects.
    pub(crate) most_read: u64,
    /// Objects a climb may start from, and own memory for remembering who leads to whom.
    pub(crate) remember: Option<(&'b Frontier, u64)>,
}

/// Marks every raw block that an object leads to with the type of its owner.
pub(crate) fn own(begin: Begin<'_, '_>) -> Owned {
    let (reader, index) = (begin.reader, begin.index);
    reader.refresh();
    let found = Owned { blocks: 0, levels: 0, cut: false, places: Vec::new(), graph: None };
    let edges = begin.remember.map(|(_, most_bytes)| Edges::new(index.slots(), most_bytes));
    let mut search = Search {
        claims: Claims { next: Frontier::new(index.slots()), inside: FxHashMap::default() },
        spare: Frontier::new(index.slots()),
        window: Window::for_scattered(64 << 10),
        edges,
        found,
        limit: reader.effort().saturating_add(begin.most_read),
        begin,
    };
    search.objects();
    let limit = reader.effort().saturating_add(search.begin.most_read);
    while !search.claims.next.is_empty() || search.claims.take_inside(index) {
        search.found.levels += 1;
        if search.found.levels as usize > MOST_LEVELS || reader.effort() > limit {
            search.found.cut = true;
            break;
        }
        search.level();
    }
    Owned { graph: search.edges.map(Edges::finish), ..search.found }
}

struct Search<'a, 'b> {
    begin: Begin<'a, 'b>,
    claims: Claims,
    /// An empty one, for the level after.
    spare: Frontier,
    window: Window,
    edges: Option<Edges>,
    found: Owned,
    /// Where following new tables of containers ends.
    limit: u64,
}

/// Blocks that somebody owns and that are still to be read.
struct Claims {
    /// Claimed at this level.
    next: Frontier,
    /// Large blocks that only words into their inside led to so far, and the first type that had one. Such a word may be what
    /// is left of something that lay there before, so whoever points to the beginning comes first, however far away.
    inside: FxHashMap<u32, u32>,
}

impl Claims {
    #[inline]
    fn claim(&mut self, begin: &Begin<'_, '_>, (slot, address): (Slot, u64), kind: u32) {
        if slot.end - slot.start >= LARGE && address - slot.start >= BEGINNING {
            self.inside.entry(slot.id).or_insert(kind);
        } else {
            claim(begin.index, begin.types, &mut self.next, slot.id, kind);
        }
    }

    /// Claims what nobody who points to the beginning did. Says whether there was something.
    fn take_inside(&mut self, index: &Index) -> bool {
        let mut left: Vec<(u32, u32)> = self.inside.drain().collect();
        left.retain(|(id, _)| index.tag(*id) == RAW);
        for (id, kind) in left {
            index.set_tag(id, owned_tag(kind));
            self.next.insert(id);
        }
        !self.next.is_empty()
    }
}

/// What is being read: a block, the type that owns what it leads to, and where its list belongs if it has one.
#[derive(Clone, Copy)]
struct Source {
    id: u32,
    kind: u32,
    part: Option<Part>,
    /// Nothing behind this is read ahead.
    bound: u64,
}

impl Search<'_, '_> {
    fn objects(&mut self) {
        let Begin { reader, index, .. } = self.begin;
        for stretch in index.stretches() {
            if let Some(pool) = stretch.pool() {
                self.window.load(reader, pool, stretch.far);
            }
            index.for_each_object(&stretch, |slot, kind| self.object(slot, kind, stretch.far));
        }
    }

    fn object(&mut self, slot: Slot, kind: u32, bound: u64) {
        let links = self.begin.links;
        let Some(lead) = links.get(kind).filter(|lead| !lead.is_leaf()) else { return };
        let from = Source { id: slot.id, kind, part: Some(Part::Objects).filter(|_| lead.holds), bound };
        let ranges = links.words(lead, slot);
        if !self.small(slot, ranges, from) {
            ranges.into_iter().filter(|range| range.0 < range.1).for_each(|range| {
                self.range(range, from);
            });
        }
        let Begin { reader, index, .. } = self.begin;
        if self.edges.is_some()
            && reader.effort() < self.limit
            && let Some(range) = links.new_table((reader, index), &mut self.window, (slot, lead))
        {
            self.new_table(range, from);
        }
        if let Some(edges) = self.edges.as_mut() {
            edges.end(Part::Objects, slot.id);
        }
    }

    /// The words of a small object, which are read at once. Says no where it is not small or not all of it is resident.
    #[inline]
    fn small(&mut self, slot: Slot, ranges: [(u64, u64); 2], from: Source) -> bool {
        let size = slot.end - slot.start;
        let Self { begin, claims, window, edges, .. } = self;
        let bytes =
            if size <= SMALL { window.at(begin.reader, slot.start, size as usize, from.bound) } else { None };
        let Some(bytes) = bytes else { return false };
        let mut edges = edges.as_mut().zip(from.part);
        for (start, end) in ranges {
            let part = bytes.get((start - slot.start) as usize..(end - slot.start) as usize);
            for stored in part.unwrap_or_default().as_chunks::<8>().0 {
                follow(begin, claims, &mut edges, from, u64::from_le_bytes(*stored));
            }
        }
        true
    }

    /// The entries of a container whose table is no block: nobody owns it, but what it leads to is held.
    fn new_table(&mut self, range: (u64, u64), from: Source) {
        let Self { begin, window, edges, .. } = self;
        let Some(edges) = edges.as_mut() else { return };
        window.words(begin.reader, range, |_, stored| {
            if let Some(slot) = begin.links.target(begin.index, unmarked(stored))
                && worth(begin, edges, from, slot, begin.index.tag(slot.id))
            {
                edges.push(Part::Objects, from.id, slot.id);
            }
        });
    }

    /// Claims what the words of a range lead to, and remembers it.
    fn range(&mut self, range: (u64, u64), from: Source) -> Led {
        let mut led = Led::Nowhere;
        let Self { begin, claims, window, edges, .. } = self;
        let mut edges = edges.as_mut().zip(from.part);
        window.words_before(begin.reader, range, from.bound, |_, stored| {
            if follow(begin, claims, &mut edges, from, stored) == Led::Somewhere {
                led = Led::Somewhere;
            }
        });
        led
    }

    fn level(&mut self) {
        let spare = std::mem::take(&mut self.spare);
        let mut now = std::mem::replace(&mut self.claims.next, spare);
        self.found.blocks += now.len();
        let part = if self.found.levels == 1 { Part::Tables } else { Part::Others };
        let (mut from, mut near) = (0, Near::default());
        while let Some(id) = now.take(from) {
            from = id + 1;
            let slot = self.begin.index.slot_near(id, &mut near);
            let (Some(slot), Some(kind)) = (slot, owner_of(self.begin.index.tag(id))) else {
                continue;
            };
            // Nearly all tables of a pool belong to some object: it is read at once.
            if let Some(pool) = self.begin.index.pool_near(&near).filter(|_| part == Part::Tables) {
                self.window.load(self.begin.reader, pool, pool.1);
            }
            let size = (slot.end - slot.start) & !7;
            let whole = size <= WHOLE || self.mostly_pointers(slot) || self.pointers_inside(slot);
            let end = slot.start + if whole { size } else { 4096 };
            let bound = self.begin.index.end_near(&near);
            let led = self.range((slot.start, end), Source { id, kind, part: Some(part), bound });
            if let Some(edges) = self.edges.as_mut() {
                edges.end(part, id);
            }
            if size <= LARGEST_TABLE && led == Led::Somewhere {
                self.names(slot.start, size);
            }
        }
        self.spare = now;
    }

    /// Remembers where suspected names stand in a table that was just read.
    fn names(&mut self, start: u64, size: u64) {
        let Self { begin: Begin { reader, types, .. }, window, found, .. } = self;
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
    fn mostly_pointers(&mut self, slot: Slot) -> bool {
        let Some(bytes) = self.window.at(self.begin.reader, slot.start, 4096, u64::MAX) else { return false };
        let words = (0..512).map(|number| word(bytes, number * 8)).filter(|word| *word != 0);
        let (mut all, mut good) = (0, 0);
        for address in words {
            all += 1;
            good += u64::from(plausible(address) && self.begin.index.find(address).is_some());
        }
        all > 0 && good * DENSITY >= all
    }

    /// Whether a large block has pointers further in, where a large dict's entries are.
    fn pointers_inside(&mut self, slot: Slot) -> bool {
        let length = (slot.end - slot.start) & !7;
        [0, length / 2, length / 8 * 5].iter().any(|offset| {
            let place = (slot.start + offset) & !7;
            let Some(bytes) = self.window.at(self.begin.reader, place, 512, slot.end) else { return false };
            let words = (0..64).map(|number| word(bytes, number * 8)).filter(|word| *word != 0);
            let (all, good) =
                words.fold((0, 0), |(all, good), address| (all + 1, good + u32::from(plausible(address))));
            good * 4 > all
        })
    }
}

/// Claims what a word leads to, and remembers it. Says whether it could own something.
#[inline]
fn follow(
    begin: &Begin<'_, '_>,
    claims: &mut Claims,
    edges: &mut Option<(&mut Edges, Part)>,
    from: Source,
    stored: u64,
) -> Led {
    let Begin { index, links, .. } = *begin;
    let address = unmarked(stored);
    if !plausible(address) || !index.covers(address) {
        return Led::Nowhere;
    }
    // A pointer with a mark other than that of an instance's values (3.12) holds, but owns nothing.
    let owns = stored & 7 == 7 || stored.trailing_zeros() >= 2;
    let led = if owns { Led::Somewhere } else { Led::Nowhere };
    let Some((edges, part)) = edges.as_mut() else {
        if let Some(slot) = index.find_raw(address).filter(|_| owns) {
            claims.claim(begin, (slot, address), from.kind);
        }
        return led;
    };
    let Some(slot) = index.find_linked(address) else { return led };
    let tag = index.tag(slot.id);
    if tag == RAW || owner_of(tag).is_some() {
        if owns {
            claims.claim(begin, (slot, address), from.kind);
        }
        edges.push(*part, from.id, slot.id);
    } else if links.holds_at(slot, tag, address) && worth(begin, edges, from, slot, tag) {
        edges.push(*part, from.id, slot.id);
    }
    led
}

/// Whether it matters that a block leads to an object: not when that leads nowhere and nobody asks for it. Objects before
/// the one that is read are known; when other blocks are read, all are.
#[inline]
fn worth(begin: &Begin<'_, '_>, edges: &Edges, from: Source, slot: Slot, tag: Tag) -> bool {
    let asked = begin.remember.is_some_and(|(asked, _)| asked.contains(slot.id));
    let leaf = object_of(tag).and_then(|kind| begin.links.get(kind)).is_some_and(Lead::is_leaf);
    let known = from.part != Some(Part::Objects) || slot.id <= from.id;
    asked || !leaf && (!known || edges.has(slot.id))
}

fn claim(index: &Index, types: &Types<'_>, next: &mut Frontier, id: u32, kind: u32) {
    match owner_of(index.tag(id)) {
        None => {
            index.set_tag(id, owned_tag(kind));
            next.insert(id);
        }
        // Two objects equally near: the plain one owns it, the one that takes part in cycles only looks at it
        // (an array and the memoryview on it).
        Some(owner) if owner != kind && next.contains(id) => {
            let gc = |kind| types.get(kind).is_some_and(Type::has_gc);
            if gc(owner) && !gc(kind) {
                index.set_tag(id, owned_tag(kind));
            }
        }
        Some(_) => {}
    }
}
