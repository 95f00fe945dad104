//! Fills the index: reads every pool and walks every heap once, with what was seen of what there was.

use crate::beside::Turn;
use crate::cache;
use crate::heap::{Candidates, Heap, Walk, Walker};
use crate::index::{Index, Leads, POOL_HEAD, Pool, RAW};
use crate::layout::{Layout, Region};
use crate::links::Links;
use crate::memory::Settings;
use crate::own::{Around, Search};
use crate::pool::{Place, PoolRead, read_again, read_pool};
use crate::reader::Reader;
use crate::tags::{PoolTags, Tags};
use crate::types::Types;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of pools that are read at once: an arena of Python's from 3.10 on. What was allocated together is looked at together,
/// while the processor's own caches still have it.
const WINDOW: u64 = 1 << 20;

/// Bytes of them that are looked at right after they were read, while even the nearest of those caches has them.
const PIECE: u64 = 128 << 10;

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

/// Reads all regions of a layout: heaps and mappings first, because what is in pools leads there; then the pools, each once.
/// The search follows what they lead to while they are at hand.
pub(crate) fn contents<'a>(
    reader: &'a Reader<'a>,
    layout: &Layout,
    (types, links): (&mut Types<'a>, &mut Links),
    search: &mut Search,
    settings: &Settings,
) -> Contents {
    let mut filler = Filler {
        reader,
        types,
        links,
        layout,
        out: Contents::default(),
        candidates: Vec::new(),
        spent: 0,
        most: settings.most_own_bytes.0,
    };
    let pools = layout.regions.iter().filter_map(|region| match region {
        Region::Pool(place) => Some(*place),
        Region::Heap(_) | Region::Single(..) | Region::Shared(..) => None,
    });
    let pools: Vec<Place> = pools.collect();
    for place in &pools {
        filler.out.index.expect_pool(place.address, place.address + place.size);
    }
    for region in &layout.regions {
        match *region {
            Region::Heap(heap) if filler.has_room(heap.end - heap.start) => filler.heap(heap),
            Region::Single(start, end) if filler.has_room(end - start) => filler.single(start, end),
            Region::Shared(start, end) if filler.has_room(end - start) => {
                filler.out.index.add_shared(start, end);
            }
            Region::Heap(_) | Region::Single(..) | Region::Shared(..) | Region::Pool(_) => {}
        }
    }
    caches(reader, &mut filler.out, &filler.candidates);
    if settings.suspects {
        filler.types.look_in_the_interpreter();
    }
    filler.links.refresh(filler.types);
    search.begin(filler.around());
    filler.pools(&pools, search);
    let Filler { mut out, types, links, .. } = filler;
    search.rest(reader, &mut out.index, (types, links));
    out.index.shrink();
    out
}

struct Filler<'a, 'b> {
    reader: &'a Reader<'a>,
    types: &'b mut Types<'a>,
    links: &'b mut Links,
    layout: &'b Layout,
    out: Contents,
    candidates: Candidates,
    /// Own memory so far, roughly, and how much it may become.
    spent: u64,
    most: u64,
}

/// A pool of a window: where its bytes begin there and how many there are, and which tags are those of its blocks.
struct Loaded {
    pool: Pool,
    at: usize,
    length: usize,
    tags: PoolTags,
    /// Which of its blocks lead somewhere, as far as they were followed.
    leads: Leads,
}

/// The pools of a window, with all that was read of them.
#[derive(Default)]
struct Batch {
    buffer: Vec<u8>,
    loaded: Vec<Loaded>,
    /// The numbers of their blocks.
    blocks: Range<u32>,
}

impl Batch {
    /// Others come, whose blocks begin with this number.
    fn clear(&mut self, first: u32) {
        self.loaded.clear();
        self.blocks = first..first;
    }
}

impl<'a> Filler<'a, '_> {
    fn around(&self) -> Around<'a, '_> {
        Around { reader: self.reader, index: &self.out.index, types: self.types, links: self.links }
    }

    /// Whether there is own memory left for a region of so many bytes; else it is left out.
    fn has_room(&mut self, bytes: u64) -> bool {
        let room = self.spent + self.out.index.wide_bytes() <= self.most;
        if !room {
            self.out.over_budget += bytes;
        }
        room
    }

    /// Pools are mapped downwards, and filled upwards in their arenas: so the oldest come first, which later ones lead to. Each
    /// window is followed when the next one was read: a table that is filled slowly leads to what was made after it.
    fn pools(&mut self, places: &[Place], search: &mut Search) {
        let (mut now, mut next) = (Batch::default(), Batch::default());
        for window in windows(places).into_iter().rev() {
            self.load(&places[window], &mut next, search);
            self.follow(&mut now, search);
            std::mem::swap(&mut now, &mut next);
            search.step();
        }
        self.follow(&mut now, search);
    }

    /// Reads the pools of a window and takes them into the index.
    fn load(&mut self, places: &[Place], batch: &mut Batch, search: &mut Search) {
        batch.clear(self.out.index.slots() as u32);
        let places: Vec<Place> = places.iter().copied().filter(|place| self.has_room(place.size)).collect();
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return };
        let Batch { buffer, loaded, blocks } = batch;
        buffer.resize((last.address + last.size - first.address) as usize, 0);
        for piece in places.chunk_by(|one, next| one.address / PIECE == next.address / PIECE) {
            let (from, to) = (piece[0].address, piece[piece.len() - 1].address + last.size);
            let part = (from - first.address) as usize..(to - first.address) as usize;
            let got = self.reader.fill(from, &mut buffer[part]);
            for place in piece {
                let (at, inside) =
                    ((place.address - first.address) as usize, (place.address - from) as usize);
                let bytes = &mut buffer[at..at + place.size as usize];
                loaded.extend(self.pool(*place, (bytes, at), got.saturating_sub(inside)));
            }
        }
        blocks.end = self.out.index.slots() as u32;
        self.links.refresh(self.types);
        for Loaded { pool, tags, .. } in &*loaded {
            search.added(pool, tags, self.types);
        }
        search.grow(&self.out.index);
        search.beside((first.address, last.address + last.size), last.size);
        for Loaded { pool, tags, .. } in &*loaded {
            search.expect(self.links, pool, tags);
        }
    }

    /// Follows what the pools of a window lead to.
    fn follow(&mut self, batch: &mut Batch, search: &mut Search) {
        let Batch { buffer, loaded, blocks } = batch;
        search.at_hand(self.around(), blocks.clone());
        for turn in Turn::ALL {
            for Loaded { pool, at, length, tags, leads } in &mut *loaded {
                if search.has(pool, turn) {
                    let (tags, bytes) = (tags.tags.as_slice(), &buffer[*at..*at + *length]);
                    *leads = search.pool(self.around(), pool, (tags, bytes), turn).max(*leads);
                }
            }
        }
        let followed = loaded.iter().map(|loaded| (loaded.pool, loaded.leads));
        search.settle(&mut self.out.index, followed);
    }

    /// Takes a pool into the index. `bytes` begin `at` in the window, and `got` of them were read.
    fn pool(&mut self, place: Place, (bytes, at): (&mut [u8], usize), got: usize) -> Option<Loaded> {
        let (start, end) = (place.address, place.address + place.size);
        self.out.pools.count += 1;
        self.out.pools.bytes += place.size;
        self.out.pools.resident += self.layout.resident.within(start, end);
        let index = &self.out.index;
        let mut length = got.min(bytes.len());
        // Behind a page that is not there nothing was read.
        if length < bytes.len() {
            length = self.reader.fill(start, bytes);
        }
        let mut tags = PoolTags::default();
        let mut read = read_pool(&bytes[..length], place, self.types, index, &mut tags);
        if matches!(read, PoolRead::Torn) {
            let (again, now, tries) = read_again((self.reader, place), self.types, index, &mut tags, bytes);
            self.out.pools.retries += tries;
            (read, length) = (again, now);
        }
        let PoolRead::Whole(head, absent) = read else {
            self.out.pools.lost += place.size;
            return None;
        };
        self.out.pools.lost += absent;
        let count = tags.tags.len();
        self.spent += Tags::bytes_of(count) + 48;
        self.out.index.add_pool((start, end), head.block, &tags)?;
        let pool = self.out.index.last_pool()?;
        let whole = count * pool.block as usize + POOL_HEAD as usize <= length;
        let leads = if whole { Leads::Nowhere } else { Leads::Raw };
        Some(Loaded { pool, at, length, tags, leads })
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
        let may_be_type = |address| self.out.index.may_be_type(address);
        let found = self.types.classify(&head[..got], end - start - 16, &may_be_type);
        let tag = found.map_or(RAW, |found| {
            self.types.leads(found, &head[..got], end - start - 16);
            self.types.met(found, &head[..got], start + 16)
        });
        self.out.singles += 1;
        self.out.single_bytes += end - start;
        self.spent += 64;
        self.out.index.add_single(start, end, tag);
    }
}

/// Pools that are next to each other, as many as are read at once.
fn windows(places: &[Place]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, place) in places.iter().enumerate() {
        match found.last_mut() {
            Some(last)
                if places[last.end - 1].address + place.size == place.address
                    && place.address + place.size - places[last.start].address <= WINDOW =>
            {
                last.end = at + 1;
            }
            _ => found.push(at..at + 1),
        }
    }
    found
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
