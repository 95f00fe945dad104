//! Fills the index: reads every pool and walks every heap once, with what was seen of what there was.

use crate::cache;
use crate::heap::{Candidates, Heap, Walk, Walker};
use crate::index::{Index, RAW, Tag, object_tag};
use crate::layout::{Layout, Region};
use crate::pool::{Place, PoolHead, PoolRead, read_again, read_pool};
use crate::reader::{Reader, Window};
use crate::tags::Tags;
use crate::types::Types;
use std::collections::BTreeMap;

/// Bytes of pools that are read at once: they are looked at while the processor's own caches still have them.
const WINDOW: usize = 256 << 10;

/// What was seen of the pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pools {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    pub(crate) resident: u64,
    /// Bytes of pools that could not be read or never agreed with themselves.
    pub(crate) lost: u64,
    pub(crate) retries: u64,
}

/// One arena of the C allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArenaSum {
    pub(crate) walk: Walk,
    pub(crate) bytes: u64,
    pub(crate) resident: u64,
    pub(crate) cached: u64,
}

/// Everything that was read.
#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) index: Index,
    pub(crate) pools: Pools,
    /// By the arena's address; the main one is 0.
    pub(crate) arenas: BTreeMap<u64, ArenaSum>,
    pub(crate) singles: u64,
    pub(crate) single_bytes: u64,
    /// Bytes left out because the own-memory budget was spent.
    pub(crate) over_budget: u64,
}

/// Reads all regions of a layout.
pub(crate) fn contents<'a>(
    reader: &'a Reader<'a>,
    layout: &Layout,
    types: &mut Types<'a>,
    most_own_bytes: u64,
) -> Contents {
    let mut filler = Filler {
        reader,
        types,
        layout,
        out: Contents::default(),
        candidates: Vec::new(),
        window: Window::new(WINDOW),
        tags: Vec::new(),
        spent: 0,
    };
    for region in &layout.regions {
        if let Region::Pool(place) = region {
            filler.out.index.expect_pool(place.address, place.address + place.size);
        }
    }
    for region in &layout.regions {
        if filler.spent + filler.out.index.wide_bytes() > most_own_bytes {
            filler.out.over_budget += length(*region);
            continue;
        }
        match *region {
            Region::Pool(place) => filler.pool(place),
            Region::Heap(heap) => filler.heap(heap),
            Region::Single(start, end) => filler.single(start, end),
        }
    }
    let (mut out, candidates) = (filler.out, filler.candidates);
    out.index.shrink();
    caches(reader, &mut out, &candidates);
    out
}

fn length(region: Region) -> u64 {
    match region {
        Region::Pool(place) => place.size,
        Region::Heap(heap) => heap.end - heap.start,
        Region::Single(start, end) => end - start,
    }
}

struct Filler<'a, 'b> {
    reader: &'a Reader<'a>,
    types: &'b mut Types<'a>,
    layout: &'b Layout,
    out: Contents,
    candidates: Candidates,
    window: Window,
    tags: Vec<Tag>,
    /// Own memory so far, roughly.
    spent: u64,
}

impl Filler<'_, '_> {
    fn pool(&mut self, place: Place) {
        let (start, end) = (place.address, place.address + place.size);
        self.out.pools.count += 1;
        self.out.pools.bytes += place.size;
        self.out.pools.resident += self.layout.resident.within(start, end);
        let index = &self.out.index;
        let mut read = match pool_bytes(&mut self.window, self.reader, place) {
            Some(bytes) => read_pool(bytes, place, self.types, index, &mut self.tags),
            None => PoolRead::Gone,
        };
        if matches!(read, PoolRead::Torn) {
            let (again, tries) = read_again(self.reader, place, self.types, index, &mut self.tags);
            self.out.pools.retries += tries;
            read = again;
        }
        match read {
            PoolRead::Whole(head, absent, leads) => {
                self.out.pools.lost += absent;
                self.spent += Tags::bytes_of(self.tags.len()) + 48;
                self.out.index.add_pool((start, end), head.block, &self.tags, leads);
            }
            PoolRead::Torn | PoolRead::Gone => self.out.pools.lost += place.size,
        }
    }

    fn heap(&mut self, heap: Heap) {
        let mut walker = Walker {
            reader: self.reader,
            types: self.types,
            index: &self.out.index,
            candidates: &mut self.candidates,
        };
        let (walk, slots) = walker.walk(heap);
        self.spent += Tags::bytes_of(slots.tags.len()) + (heap.end - heap.start) / 128;
        let sum = self.out.arenas.entry(heap.arena).or_default();
        sum.bytes += heap.end - heap.start;
        sum.resident += self.layout.resident.within(heap.start, heap.end);
        sum.walk.live += walk.live;
        sum.walk.free += walk.free;
        sum.walk.top += walk.top;
        sum.walk.lost += walk.lost;
        sum.walk.retries += walk.retries;
        if walk.top_at != 0 {
            sum.walk.top_at = walk.top_at;
        }
        self.out.index.add_heap(heap.start, heap.end, slots);
    }

    fn single(&mut self, start: u64, end: u64) {
        let mut head = [0; 80];
        let got = self.reader.fill(start + 16, &mut head);
        let found = self.types.classify(&head[..got], end - start - 16, &self.out.index);
        found.iter().for_each(|found| {
            self.types.leads(*found, &head[..got], end - start - 16);
        });
        self.out.singles += 1;
        self.out.single_bytes += end - start;
        self.spent += 64;
        self.out.index.add_single(start, end, found.map_or(RAW, |found| object_tag(self.types.kind(found))));
    }
}

/// The bytes of a pool up to the last block that was ever out, at least.
fn pool_bytes<'w>(window: &'w mut Window, reader: &Reader<'_>, place: Place) -> Option<&'w [u8]> {
    let far = place.address + (1 << 20);
    let head = PoolHead::read(window.at(reader, place.address, 48, far)?, place.address, place.size)?;
    let used = head.used_bytes();
    let need = if window.at(reader, place.address, used, far).is_some() { used } else { 48 };
    let bytes = window.at(reader, place.address, need, far)?;
    Some(&bytes[..bytes.len().min(place.size as usize)])
}

/// Takes what threads and fast bins keep out of what is in use.
fn caches(reader: &Reader<'_>, out: &mut Contents, candidates: &[(u64, u64)]) {
    reader.refresh();
    for candidate in candidates {
        let freed = cache::mark_cached(reader, &out.index, &[*candidate]);
        // A cache lies in the arena its thread began with; its chunks may be of others, but seldom are.
        let arena = arena_of(out, candidate.0);
        if let Some(sum) = out.arenas.get_mut(&arena) {
            sum.cached += freed;
        }
    }
    let addresses: Vec<(u64, u64)> =
        out.arenas.iter().map(|(arena, sum)| (*arena, sum.walk.top_at)).collect();
    for (arena, top) in addresses {
        let place = if arena == 0 { cache::main_arena(reader, top) } else { Some(arena) };
        let freed = place.map_or(0, |place| cache::mark_fast_bins(reader, &out.index, place));
        if let Some(sum) = out.arenas.get_mut(&arena) {
            sum.walk.live = sum.walk.live.saturating_sub(freed);
            sum.walk.free += freed;
        }
    }
}

fn arena_of(out: &Contents, chunk: u64) -> u64 {
    const HEAP: u64 = !((64 << 20) - 1);
    out.arenas.keys().copied().find(|arena| *arena != 0 && arena & HEAP == chunk & HEAP).unwrap_or(0)
}
