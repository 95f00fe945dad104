//! Sums over the index: by type, by arena, by size.

use crate::contents::Contents;
use crate::index::{CACHED, CHUNK_HEAD, CHUNK_TAIL, Home, RAW, Slot, Tag, Visit, object_of, owner_of};
use crate::layout::Layout;
use crate::mapped::Mapped;
use crate::presample::Samples;
use crate::reader::Resident;
use crate::report::{Arena, Native, SizeUse, TypeUse};
use crate::types::Types;
use lowtide_model::Bytes;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Smaller blocks are taken for resident: they share their pages with others.
pub(crate) const SMALL: u64 = 8 << 10;
/// Different sizes of unowned chunks that are told apart.
const MOST_SIZES: usize = 1 << 16;
/// Sizes that are reported.
const SHOWN_SIZES: usize = 20;

/// Resident bytes by use.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) objects: u64,
    pub(crate) owned: u64,
    pub(crate) unowned: u64,
    pub(crate) python_raw: u64,
    /// Resident bytes of live blocks in pools, and in heaps.
    pub(crate) pool_live: u64,
    pub(crate) heap_live: u64,
    /// Resident bytes of all pools, and of all heaps.
    pub(crate) pools: u64,
    pub(crate) heaps: u64,
    /// Bytes of heaps that no walk could tell.
    pub(crate) lost: u64,
    unowned_allocated: u64,
    sizes: FxHashMap<u64, (u64, u64)>,
}

/// Goes over all blocks once, and draws from those that are owned.
pub(crate) fn totals(
    layout: &Layout,
    contents: &Contents,
    types: &mut Types<'_>,
    samples: &mut Samples,
) -> Totals {
    let mut sum = Totals {
        pools: contents.pools.resident.saturating_sub(contents.pools.lost),
        heaps: contents.arenas.values().map(|arena| arena.resident).sum(),
        lost: contents.pools.lost + contents.arenas.values().map(|arena| arena.walk.lost).sum::<u64>(),
        ..Totals::default()
    };
    contents.index.visit(&mut Summing { sum: &mut sum, resident: &layout.resident, types, samples });
    sum
}

struct Summing<'s, 't> {
    sum: &'s mut Totals,
    resident: &'s Resident,
    types: &'s mut Types<'t>,
    samples: &'s mut Samples,
}

impl Visit for Summing<'_, '_> {
    /// Blocks of pools are small: no need to look at each.
    fn pool(&mut self, bytes: u64, tags: &[(Tag, u32)]) {
        for (tag, count) in tags {
            let count = u64::from(*count);
            let alike = Alike { count, size: bytes, bytes: bytes * count, here: bytes * count };
            self.sum.add(self.types, (alike, *tag, Home::Pool));
        }
    }

    fn block(&mut self, slot: Slot, tag: Tag, home: Home) {
        let (start, end) = match home {
            Home::Pool | Home::Shared => (slot.start, slot.end),
            Home::Mapping => (slot.start - CHUNK_HEAD, slot.end),
            Home::Heap => (slot.start - CHUNK_HEAD, slot.end - CHUNK_TAIL),
        };
        let size = end - start;
        let here = if size < SMALL { size } else { self.resident.within(start, end) };
        owner_of(tag).into_iter().for_each(|kind| self.samples.owned(kind, slot, here));
        self.sum.add(self.types, (Alike { count: 1, size, bytes: size, here }, tag, home));
    }
}

/// Blocks of one size.
#[derive(Clone, Copy)]
struct Alike {
    count: u64,
    /// Bytes of one.
    size: u64,
    /// Bytes of all, and how many of them are resident.
    bytes: u64,
    here: u64,
}

impl Totals {
    fn add(&mut self, types: &mut Types<'_>, (blocks, tag, home): (Alike, Tag, Home)) {
        let Alike { count, size, bytes, here } = blocks;
        if let Some(found) = object_of(tag).and_then(|kind| types.all.get_mut(kind as usize)) {
            found.count += count;
            found.own += here;
            found.absent += bytes - here;
            self.objects += here;
        } else if let Some(found) = owner_of(tag).and_then(|kind| types.all.get_mut(kind as usize)) {
            found.owned += here;
            found.small += if home == Home::Pool { here } else { 0 };
            found.absent += bytes - here;
            // Shared memory is a part of its own, whoever owns it.
            self.owned += if home == Home::Shared { 0 } else { here };
        } else if home == Home::Shared {
        } else if tag == RAW && home == Home::Pool {
            self.python_raw += here;
        } else if tag == RAW {
            self.unowned += here;
            self.unowned_allocated += bytes;
            if self.sizes.len() < MOST_SIZES || self.sizes.contains_key(&size) {
                let entry = self.sizes.entry(size).or_default();
                entry.0 += count;
                entry.1 += bytes;
            }
        } else {
            debug_assert!(tag == CACHED || tag == 0, "a tag without a meaning");
            return;
        }
        match home {
            Home::Pool => self.pool_live += here,
            Home::Heap => self.heap_live += here,
            Home::Mapping | Home::Shared => {}
        }
    }

    /// Gives types what their objects have mapped for themselves: it hangs on the objects, as small blocks do.
    pub(crate) fn give(&mut self, mapped: &[Mapped], types: &mut Types<'_>) {
        for one in mapped {
            if let Some(found) = types.all.get_mut(one.kind as usize) {
                found.owned += one.here;
                found.small += one.here;
                found.absent += one.absent;
                self.owned += one.here;
            }
        }
    }

    /// Types with the same name and module as one line, most bytes first.
    pub(crate) fn types(types: &Types<'_>) -> Vec<TypeUse> {
        let mut rows: BTreeMap<(&str, &str), TypeUse> = BTreeMap::new();
        for found in types.all.iter().filter(|found| found.count > 0 || found.owned > 0) {
            let row = rows.entry((&found.module, &found.name)).or_insert_with(|| TypeUse {
                name: found.name.clone(),
                module: found.module.clone(),
                ..TypeUse::default()
            });
            row.count += found.count;
            row.classes += found.classes;
            row.own_bytes = row.own_bytes.saturating_add(Bytes(found.own));
            row.owned_bytes = row.owned_bytes.saturating_add(Bytes(found.owned));
            row.absent_bytes = row.absent_bytes.saturating_add(Bytes(found.absent));
        }
        let mut rows: Vec<TypeUse> = rows.into_values().collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.bytes(), row.count)));
        rows
    }

    /// What the C allocator says of itself.
    pub(crate) fn native(&self, contents: &Contents) -> Native {
        let arenas: Vec<Arena> = contents
            .arenas
            .iter()
            .enumerate()
            .map(|(number, (address, sum))| Arena {
                name: if *address == 0 { "main".to_owned() } else { format!("thread {number}") },
                live_bytes: Bytes(sum.walk.live.saturating_sub(sum.cached)),
                free_bytes: Bytes(sum.walk.free),
                top_bytes: Bytes(sum.walk.top),
                cached_bytes: Bytes(sum.cached),
                resident_bytes: Bytes(sum.resident),
                complete: sum.walk.lost == 0,
            })
            .collect();
        let live: Bytes = arenas.iter().map(|arena| arena.live_bytes).sum();
        let kept =
            arenas.iter().map(|arena| arena.free_bytes.0 + arena.top_bytes.0 + arena.cached_bytes.0).sum();
        Native {
            live_bytes: live.saturating_add(Bytes(contents.single_bytes)),
            unowned_bytes: Bytes(self.unowned_allocated),
            mapped_bytes: Bytes(contents.single_bytes),
            kept_bytes: Bytes(kept),
            arenas,
            unowned_sizes: self.sizes(),
        }
    }

    fn sizes(&self) -> Vec<SizeUse> {
        let row = |(size, (count, bytes)): (&u64, &(u64, u64))| SizeUse {
            size_bytes: Bytes(*size),
            count: *count,
            bytes: Bytes(*bytes),
        };
        let mut rows: Vec<SizeUse> = self.sizes.iter().map(row).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.bytes, row.size_bytes)));
        rows.truncate(SHOWN_SIZES);
        rows
    }
}
