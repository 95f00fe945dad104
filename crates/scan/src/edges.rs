//! Which block leads to which, remembered while the blocks are read once: about two bytes a pointer.
//!
//! Why: the search for holders goes over all of it, level by level. Reading the target again for each level cost more than
//! all the rest of a scan. What leads nowhere is left out: text, numbers, and blocks that only lead to those, unless they are
//! asked for. A list is a head (how far from the block before, how many) and the blocks it leads to, each as the
//! difference to the one before it; the first one as the difference to the first of the list before.

use crate::ranked::Ranked;

/// Bytes after which the next list can be found without reading the ones before it.
const STRETCH: usize = 128;
/// Blocks of one list; a longer one is several.
const LONGEST: usize = 64;
/// Bytes of one piece of a stream: it grows without being moved.
const PIECE: usize = 1 << 20;
/// The most that one list takes: a head of 11 bytes and five for each block.
const LIST_BYTES: usize = 11 + LONGEST * 5;
/// Places in a stream are numbers of 32 bits.
const MOST_BYTES: u64 = 2 << 30;
/// A number this large in a head stands behind it.
const BEHIND: u32 = 15;

/// Lists of many blocks, one behind the other.
#[derive(Default)]
struct Stream {
    pieces: Vec<Vec<u8>>,
}

impl Stream {
    /// Room for one more list, and where it will begin.
    fn room(&mut self) -> (u32, &mut Vec<u8>) {
        let full = self.pieces.last().is_none_or(|piece| piece.len() + LIST_BYTES > PIECE);
        if full {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        let last = self.pieces.len() - 1;
        let piece = &mut self.pieces[last];
        ((last * PIECE + piece.len()) as u32, piece)
    }

    /// The bytes from `at` to the end of their piece.
    fn from(&self, at: u32) -> &[u8] {
        let piece = self.pieces.get(at as usize / PIECE);
        piece.and_then(|piece| piece.get(at as usize % PIECE..)).unwrap_or_default()
    }
}

/// A place where reading can begin: the block whose list begins there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    id: u32,
    at: u32,
}

/// What a list is written against: the block before, and the first block of its list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Before {
    id: u32,
    first: u32,
}

impl Before {
    /// At a mark nothing is before.
    fn mark(id: u32) -> Self {
        Self { id, first: id }
    }
}

/// Lists in the order of their blocks.
#[derive(Default)]
struct Layer {
    stream: Stream,
    marks: Vec<Mark>,
    before: Before,
}

impl Layer {
    fn push(&mut self, id: u32, targets: &[u32]) {
        let (at, bytes) = self.stream.room();
        let begins = self.marks.last().is_none_or(|mark| {
            (at - mark.at) as usize >= STRETCH || at as usize / PIECE != mark.at as usize / PIECE
        });
        if begins {
            self.marks.push(Mark { id, at });
            self.before = Before::mark(id);
        }
        self.before = write(bytes, self.before, id, targets);
    }

    fn own_bytes(&self) -> u64 {
        (self.stream.pieces.len() * PIECE + self.marks.capacity() * size_of::<Mark>()) as u64
    }
}

/// All lists.
pub(crate) struct Edges {
    objects: Layer,
    /// Blocks that objects lead to directly and that are none.
    tables: Layer,
    /// All other blocks, in any order: every list has a mark.
    others: Layer,
    /// Blocks that have a list.
    has: Vec<u64>,
    /// The list that is being made.
    targets: Vec<u32>,
    /// Own memory that may be used.
    most_bytes: u64,
    /// Whether that was not enough: then there are no lists.
    pub(crate) full: bool,
}

/// Where a list belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Objects,
    Tables,
    Others,
}

impl Edges {
    /// For blocks below `slots`, with own memory of at most `most_bytes`.
    pub(crate) fn new(slots: usize, most_bytes: u64) -> Self {
        Self {
            objects: Layer::default(),
            tables: Layer::default(),
            others: Layer::default(),
            has: vec![0; slots / 64 + 1],
            targets: Vec::with_capacity(LONGEST),
            most_bytes: most_bytes.min(MOST_BYTES),
            full: false,
        }
    }

    /// Whether a block has a list.
    #[inline]
    pub(crate) fn has(&self, id: u32) -> bool {
        self.has.get(id as usize / 64).is_some_and(|bits| bits >> (id % 64) & 1 == 1)
    }

    /// The block that is read leads to `target`.
    #[inline]
    pub(crate) fn push(&mut self, part: Part, id: u32, target: u32) {
        if self.targets.last() != Some(&target) {
            self.targets.push(target);
            if self.targets.len() == LONGEST {
                self.end(part, id);
            }
        }
    }

    /// All of block `id` was read.
    #[inline]
    pub(crate) fn end(&mut self, part: Part, id: u32) {
        if !self.targets.is_empty() {
            self.write(part, id);
        }
    }

    fn write(&mut self, part: Part, id: u32) {
        let Some(bits) = self.has.get_mut(id as usize / 64).filter(|_| !self.full) else {
            return self.targets.clear();
        };
        *bits |= 1 << (id % 64);
        let layer = match part {
            Part::Objects => &mut self.objects,
            Part::Tables => &mut self.tables,
            Part::Others => &mut self.others,
        };
        if part == Part::Others {
            // Forgets what was before: a mark at every list.
            let at = layer.stream.room().0;
            layer.marks.push(Mark { id, at });
            layer.before = Before::mark(id);
            write(layer.stream.room().1, layer.before, id, &self.targets);
        } else {
            layer.push(id, &self.targets);
        }
        self.targets.clear();
        if self.own_bytes() > self.most_bytes {
            (self.objects, self.tables, self.others) = Default::default();
            self.full = true;
        }
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        let layers = self.objects.own_bytes() + self.tables.own_bytes() + self.others.own_bytes();
        layers + self.has.len() as u64 * 8
    }

    /// All lists are made: from now on they can be read.
    pub(crate) fn finish(mut self) -> Graph {
        self.others.marks.sort_unstable_by_key(|mark| mark.id);
        for layer in [&mut self.objects, &mut self.tables, &mut self.others] {
            layer.marks.shrink_to_fit();
        }
        if self.full {
            self.has = Vec::new();
        }
        let Self { objects, tables, others, has, full, .. } = self;
        Graph { objects, tables, others, lists: Ranked::new(has), full }
    }
}

fn write(bytes: &mut Vec<u8>, before: Before, id: u32, targets: &[u32]) -> Before {
    let (far, count) = (id.wrapping_sub(before.id), targets.len() as u32);
    bytes.push((far.min(BEHIND) | count.min(BEHIND) << 4) as u8);
    for number in [far, count].into_iter().filter(|number| *number >= BEHIND) {
        put(bytes, number - BEHIND);
    }
    let mut last = before.first;
    for target in targets {
        let difference = target.wrapping_sub(last).cast_signed();
        put(bytes, (difference << 1 ^ difference >> 31).cast_unsigned());
        last = *target;
    }
    Before { id, first: targets.first().copied().unwrap_or(before.first) }
}

/// Seven bits a byte, the lowest first.
fn put(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Bytes that are read on.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    #[inline]
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    #[inline]
    fn number(&mut self) -> u32 {
        let first = self.byte();
        if first < 0x80 { u32::from(first) } else { self.long(first) }
    }

    fn long(&mut self, first: u8) -> u32 {
        let mut number = u32::from(first & 0x7f);
        for shift in [7, 14, 21, 28] {
            let next = self.byte();
            number |= u32::from(next & 0x7f) << shift;
            if next < 0x80 {
                break;
            }
        }
        number
    }

    /// The block of the next list, and how many it leads to.
    fn head(&mut self, before: Before) -> (u32, u32) {
        let head = u32::from(self.byte());
        let mut wide = |number: u32| if number == BEHIND { BEHIND + self.number() } else { number };
        let far = wide(head & 15);
        (before.id.wrapping_add(far), wide(head >> 4))
    }

    /// Calls `each` with the blocks of a list; gives the first.
    #[inline]
    fn list(&mut self, count: u32, before: Before, mut each: impl FnMut(u32)) -> u32 {
        let (mut last, mut first) = (before.first, before.first);
        for number in 0..count {
            let coded = self.number();
            last = last.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg());
            if number == 0 {
                first = last;
            }
            each(last);
        }
        first
    }
}

/// The lists, to be read.
pub(crate) struct Graph {
    objects: Layer,
    tables: Layer,
    others: Layer,
    /// Blocks that have a list, each with its number.
    pub(crate) lists: Ranked,
    /// Whether there are no lists because they would have taken too much.
    pub(crate) full: bool,
}

/// Where reading was, for those who ask for blocks in ascending order.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// The next list begins here.
    at: u32,
    before: Before,
    /// The mark after it.
    mark: usize,
}

/// One for each part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursors {
    objects: Cursor,
    tables: Cursor,
}

/// Whether a block is an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Object,
    Other,
}

impl Graph {
    /// How many blocks have a list.
    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        let layers = self.objects.own_bytes() + self.tables.own_bytes() + self.others.own_bytes();
        layers + self.lists.own_bytes()
    }

    /// Calls `each` with every object and each block it leads to.
    pub(crate) fn each_object(&self, mut each: impl FnMut(u32, u32)) {
        for (number, mark) in self.objects.marks.iter().enumerate() {
            let end = self.objects.marks.get(number + 1).map_or(u32::MAX, |next| next.at);
            let mut bytes = Bytes(self.objects.stream.from(mark.at));
            let length = bytes.0.len();
            let mut before = Before::mark(mark.id);
            while !bytes.0.is_empty() && mark.at + ((length - bytes.0.len()) as u32) < end {
                let (id, count) = bytes.head(before);
                let first = bytes.list(count, before, |below| each(id, below));
                before = Before { id, first };
            }
        }
    }

    /// Calls `each` with every block that `id` leads to.
    pub(crate) fn below(&self, id: u32, what: What, cursors: &mut Cursors, mut each: impl FnMut(u32)) {
        if what == What::Object {
            self.objects.visit(id, &mut cursors.objects, &mut each);
            return;
        }
        if self.tables.visit(id, &mut cursors.tables, &mut each) {
            return;
        }
        let marks = &self.others.marks;
        let from = marks.partition_point(|mark| mark.id < id);
        for mark in marks[from..].iter().take_while(|mark| mark.id == id) {
            let mut bytes = Bytes(self.others.stream.from(mark.at));
            let (_, count) = bytes.head(Before::mark(id));
            bytes.list(count, Before::mark(id), &mut each);
        }
    }
}

impl Layer {
    /// Reads on from the cursor where that is near, else from the last mark before the block.
    /// Says whether the block has a list here.
    fn visit(&self, id: u32, cursor: &mut Cursor, each: &mut impl FnMut(u32)) -> bool {
        const NEAR: usize = 4;
        let mut found = false;
        let ahead = self.marks.get(cursor.mark + NEAR);
        if cursor.mark == 0 || id <= cursor.before.id || ahead.is_some_and(|mark| mark.id < id) {
            let mark = self.marks.partition_point(|mark| mark.id < id).saturating_sub(1);
            let Some(begin) = self.marks.get(mark) else { return false };
            *cursor = Cursor { at: begin.at, before: Before::mark(begin.id), mark: mark + 1 };
        }
        loop {
            let mark = self.marks.get(cursor.mark);
            let mut bytes = Bytes(self.stream.from(cursor.at));
            if mark.is_some_and(|mark| mark.at == cursor.at || bytes.0.is_empty()) {
                let Some(mark) = mark else { return found };
                *cursor = Cursor { at: mark.at, before: Before::mark(mark.id), mark: cursor.mark + 1 };
                continue;
            }
            if bytes.0.is_empty() {
                return found;
            }
            let length = bytes.0.len();
            let (owner, count) = bytes.head(cursor.before);
            if owner > id {
                return found;
            }
            let first = if owner == id {
                found = true;
                bytes.list(count, cursor.before, &mut *each)
            } else {
                bytes.list(count, cursor.before, |_| ())
            };
            cursor.at += (length - bytes.0.len()) as u32;
            cursor.before = Before { id: owner, first };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn part(id: u32) -> Part {
        [Part::Objects, Part::Tables, Part::Others][id as usize % 3]
    }

    fn below(graph: &Graph, id: u32, cursors: &mut Cursors) -> Vec<u32> {
        let mut found = Vec::new();
        let what = if part(id) == Part::Objects { What::Object } else { What::Other };
        graph.below(id, what, cursors, |target| found.push(target));
        found
    }

    fn graph(lists: &BTreeMap<u32, Vec<u32>>) -> Graph {
        let mut edges = Edges::new(1 << 20, u64::MAX);
        for (id, targets) in lists {
            targets.iter().for_each(|target| edges.push(part(*id), *id, *target));
            edges.end(part(*id), *id);
        }
        edges.finish()
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_in_any_order(
            lists in proptest::collection::btree_map(0_u32..1 << 20, proptest::collection::vec(any::<u32>(), 1..200), 1..200),
            asked in proptest::collection::vec(0_u32..1 << 20, 0..50),
        ) {
            let lists: BTreeMap<u32, Vec<u32>> = lists.into_iter().map(|(id, mut list)| { list.dedup(); (id, list) }).collect();
            let graph = graph(&lists);
            prop_assert_eq!(graph.len(), lists.len());
            let mut all = Vec::new();
            graph.each_object(|id, below| all.push((id, below)));
            let objects = lists.iter().filter(|(id, _)| part(**id) == Part::Objects);
            let wanted: Vec<(u32, u32)> = objects.flat_map(|(id, list)| list.iter().map(|below| (*id, *below))).collect();
            prop_assert_eq!(all, wanted);
            let mut cursors = Cursors::default();
            for (id, list) in &lists {
                prop_assert_eq!(&below(&graph, *id, &mut cursors), list);
                prop_assert!(graph.lists.number(*id).is_some());
            }
            for id in asked.iter().chain(lists.keys().rev()) {
                let list = lists.get(id).cloned().unwrap_or_default();
                prop_assert_eq!(below(&graph, *id, &mut cursors), list);
            }
        }
    }

    #[test]
    fn a_long_list_and_many_short_ones_take_little() {
        let lists: BTreeMap<u32, Vec<u32>> = (0..100_000)
            .map(|id| (id * 3, vec![500_000 + id]))
            .chain([(400_000, (0..300_000).collect())])
            .collect();
        let graph = graph(&lists);
        let mut cursors = Cursors::default();
        assert_eq!(below(&graph, 400_000, &mut cursors).len(), 300_000);
        assert_eq!(below(&graph, 150_000, &mut cursors), [550_000]);
        assert!(graph.own_bytes() < 6 << 20, "{}", graph.own_bytes());
    }

    #[test]
    fn without_room_there_is_no_list_at_all() {
        let mut edges = Edges::new(1000, 1000);
        edges.push(Part::Objects, 1, 2);
        edges.end(Part::Objects, 1);
        assert!(edges.full);
        edges.push(Part::Objects, 3, 4);
        edges.end(Part::Objects, 3);
        let graph = edges.finish();
        assert!(graph.full && graph.len() == 0);
        assert!(below(&graph, 1, &mut Cursors::default()).is_empty());
    }
}
