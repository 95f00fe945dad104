//! Which Python type owns a block of native memory: the one whose object is nearest to it by pointers.
//!
//! A search in width from all objects at once, through blocks that are no objects. It knows nothing of numpy,
//! Pillow or torch. Text, digits and bytes are barred as sources: data there can look like pointers.
//! Depth does not help: a search in depth gave 38 MB of weights to the wrong type.

use crate::index::{Index, Slot, object_of, owned_tag, owner_of};
use crate::reader::{Reader, Window, plausible, word};
use crate::types::Types;

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
}

/// Whether a range had pointers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Led {
    Nowhere,
    Somewhere,
}

/// Marks every raw block that an object leads to with the type of its owner.
pub(crate) fn own(reader: &Reader<'_>, index: &Index, types: &Types<'_>, most_read: u64) -> Owned {
    let mut search = Search {
        reader,
        index,
        types,
        next: Vec::new(),
        fresh: vec![0; index.slots() / 64 + 1],
        window: Window::new(64 << 10),
        found: Owned { barren: vec![0; index.slots() / 64 + 1], ..Owned::default() },
    };
    search.objects();
    let limit = reader.spent().1.saturating_add(most_read);
    while !search.next.is_empty() {
        search.found.levels += 1;
        if search.found.levels as usize > MOST_LEVELS || reader.spent().1 > limit {
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
    /// Blocks claimed at this level.
    next: Vec<u32>,
    /// The same as bits.
    fresh: Vec<u64>,
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
        let Some(found) = self.types.get(kind) else { return };
        let skip = self.types.skip() as u64;
        let size = (slot.end - slot.start).saturating_sub(self.types.overhead());
        let (head, from, to) = found.pointers(size, self.types.version);
        if to <= from && head == 0 {
            return;
        }
        let start = slot.start + skip;
        self.range(start, 0, head, kind);
        self.range(start, from, to.max(from), kind);
    }

    /// Claims what the words of `[start + from, start + to)` lead to.
    fn range(&mut self, start: u64, from: u64, to: u64, kind: u32) -> Led {
        let mut led = Led::Nowhere;
        let Self { reader, index, types, next, fresh, window, .. } = self;
        window.words(reader, (start + from, start + to), |_, stored| {
            // 3.12 marks the pointer to an instance's values by taking one away.
            let address = stored.wrapping_add(u64::from(stored & 7 == 7));
            if plausible(address) && index.covers(address) {
                led = Led::Somewhere;
                if let Some(slot) = index.find_raw(address) {
                    claim(index, types, (next, fresh), slot.id, kind);
                }
            }
        });
        led
    }

    fn level(&mut self) {
        let mut now = std::mem::take(&mut self.next);
        self.found.blocks += now.len() as u64;
        now.iter().for_each(|id| self.fresh[*id as usize / 64] = 0);
        now.sort_unstable();
        for id in now {
            let (Some(slot), Some(kind)) = (self.index.slot(id), owner_of(self.index.tag(id))) else {
                continue;
            };
            let size = (slot.end - slot.start) & !7;
            let whole = size <= WHOLE || self.mostly_pointers(slot);
            let led = self.range(slot.start, 0, if whole { size } else { 4096 }, kind);
            if whole && led == Led::Nowhere && size > BARREN {
                self.found.barren[id as usize / 64] |= 1 << (id % 64);
            }
        }
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

fn claim(index: &Index, types: &Types<'_>, (next, fresh): (&mut Vec<u32>, &mut [u64]), id: u32, kind: u32) {
    let (place, bit) = (id as usize / 64, 1 << (id % 64));
    match owner_of(index.tag(id)) {
        None => {
            index.set_tag(id, owned_tag(kind));
            fresh[place] |= bit;
            next.push(id);
        }
        // Two objects equally near: the plain one owns it, the one that takes part in cycles only looks at it
        // (an array and the memoryview on it).
        Some(owner) if owner != kind && fresh[place] & bit != 0 => {
            let gc = |kind| types.get(kind).is_some_and(crate::types::Type::has_gc);
            if gc(owner) && !gc(kind) {
                index.set_tag(id, owned_tag(kind));
            }
        }
        Some(_) => {}
    }
}
