//! Which Python type owns a block of native memory: the one whose object is nearest to it by pointers.
//!
//! A search in width from all objects at once, through blocks that are no objects. It knows nothing of numpy,
//! Pillow or torch. Text, digits and bytes are barred as sources: data there can look like pointers.
//! Depth does not help: a search in depth gave 38 MB of weights to the wrong type.

use crate::frontier::Frontier;
use crate::index::{Index, Near, Slot, object_of, owned_tag, owner_of};
use crate::reader::{Reader, Window, plausible, word};
use crate::suspects::{LARGEST_TABLE, MOST_FOUND, Place};
use crate::types::{Type, Types};

/// Larger raw blocks are read on only if their beginning is mostly pointers.
const WHOLE: u64 = 64 << 10;
/// One word of this many must be a pointer for a large block to be read on.
const DENSITY: u64 = 8;
/// Raw blocks larger than this are remembered when they hold no pointer.
const BARREN: u64 = 512;
/// Levels of the search; a chain of native records can be long.
const MOST_LEVELS: usize = 4096;

/// What the search cost and reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) blocks: u64,
    pub(crate) levels: u64,
    /// Whether the budget of reads ended it.
    pub(crate) cut: bool,
    /// Bits of large raw blocks in which no word points anywhere: data, not worth reading again.
    pub(crate) barren: Vec<u64>,
    /// Where names that people suspect stand in tables.
    pub(crate) places: Vec<Place>,
}

/// Whether a range had pointers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Led {
    Nowhere,
    Somewhere,
}

/// The words of an object of one type that can be pointers: before the object proper, and from there to an end.
#[derive(Clone, Copy)]
struct Words {
    head: u64,
    from: u64,
    /// The end, unless all of the block counts.
    to: Option<u64>,
}

impl Words {
    /// Nothing where a type has none.
    fn of(found: &Type, types: &Types<'_>) -> Option<Self> {
        const LONG: u64 = 1 << 40;
        let (head, from, to) = found.pointers(LONG, types.version);
        (to > from || head > 0).then_some(Self { head, from, to: Some(to).filter(|to| *to < LONG) })
    }
}

/// Marks every raw block that an object leads to with the type of its owner.
pub(crate) fn own(reader: &Reader<'_>, index: &Index, types: &Types<'_>, most_read: u64) -> Owned {
    let mut search = Search {
        reader,
        index,
        types,
        words: types.all.iter().map(|found| Words::of(found, types)).collect(),
        next: Frontier::new(index.slots()),
        spare: Frontier::new(index.slots()),
        window: Window::new(64 << 10),
        found: Owned { barren: vec![0; index.slots() / 64 + 1], ..Owned::default() },
    };
    search.objects();
    let limit = reader.effort().saturating_add(most_read);
    while !search.next.is_empty() {
        search.found.levels += 1;
        if search.found.levels as usize > MOST_LEVELS || reader.effort() > limit {
            search.found.cut = true;
            break;
        }
        search.level();
    }
    search.found
}

struct Search<'a, 'b> {
    reader: &'b Reader<'a>,
    index: &'b Index,
    types: &'b Types<'a>,
    /// By type.
    words: Vec<Option<Words>>,
    /// Blocks claimed at this level.
    next: Frontier,
    /// An empty one, for the level after.
    spare: Frontier,
    window: Window,
    found: Owned,
}

impl Search<'_, '_> {
    fn objects(&mut self) {
        let index = self.index;
        index.for_each(|slot, tag, _| {
            if let Some(kind) = object_of(tag) {
                self.object(slot, kind);
            }
        });
    }

    fn object(&mut self, slot: Slot, kind: u32) {
        let Some(Some(words)) = self.words.get(kind as usize).copied() else { return };
        let size = (slot.end - slot.start).saturating_sub(self.types.overhead());
        let start = slot.start + self.types.skip() as u64;
        if words.head > 0 {
            self.range(start, 0, words.head.min(size), kind);
        }
        self.range(start, words.from, words.to.map_or(size, |to| to.min(size)), kind);
    }

    /// Claims what the words of `[start + from, start + to)` lead to.
    fn range(&mut self, start: u64, from: u64, to: u64, kind: u32) -> Led {
        let mut led = Led::Nowhere;
        let Self { reader, index, types, next, window, .. } = self;
        window.words(reader, (start + from, start + to), |_, stored| {
            // 3.12 marks the pointer to an instance's values by taking one away.
            let address = stored.wrapping_add(u64::from(stored & 7 == 7));
            if plausible(address) && index.covers(address) {
                led = Led::Somewhere;
                if let Some(slot) = index.find_raw(address) {
                    claim(index, types, next, slot.id, kind);
                }
            }
        });
        led
    }

    fn level(&mut self) {
        let spare = std::mem::take(&mut self.spare);
        let mut now = std::mem::replace(&mut self.next, spare);
        self.found.blocks += now.len();
        let (mut from, mut near) = (0, Near::default());
        while let Some(id) = now.take(from) {
            from = id + 1;
            let slot = self.index.slot_near(id, &mut near);
            let (Some(slot), Some(kind)) = (slot, owner_of(self.index.tag(id))) else {
                continue;
            };
            let size = (slot.end - slot.start) & !7;
            let whole = size <= WHOLE || self.mostly_pointers(slot);
            let led = self.range(slot.start, 0, if whole { size } else { 4096 }, kind);
            if size <= LARGEST_TABLE && led == Led::Somewhere {
                self.names(slot.start, size);
            }
            if whole && led == Led::Nowhere && size > BARREN {
                self.found.barren[id as usize / 64] |= 1 << (id % 64);
            }
        }
        self.spare = now;
    }

    /// Remembers where suspected names stand in a table that was just read.
    fn names(&mut self, start: u64, size: u64) {
        let Self { reader, types, window, found, .. } = self;
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
        let Some(bytes) = self.window.at(self.reader, slot.start, 4096, u64::MAX) else { return false };
        let words = (0..512).map(|number| word(bytes, number * 8)).filter(|word| *word != 0);
        let (mut all, mut good) = (0, 0);
        for address in words {
            all += 1;
            good += u64::from(plausible(address) && self.index.find(address).is_some());
        }
        all > 0 && good * DENSITY >= all
    }
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
            let gc = |kind| types.get(kind).is_some_and(crate::types::Type::has_gc);
            if gc(owner) && !gc(kind) {
                index.set_tag(id, owned_tag(kind));
            }
        }
        Some(_) => {}
    }
}
