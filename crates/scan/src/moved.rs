//! Containers that got a new table while they were scanned: what they hold is read once more.
//!
//! A list that grows is the very one that is looked for, and each time it grows its entries move. Between the moment when the
//! list was read and the one when its table was, the table may have gone to another place; then nothing seems to hold what is in
//! it. Only where samples hang on nothing is it worth to look at all containers again.

use crate::climb::Ground;
use crate::edges::{Cursors, Graph, What, Words};
use crate::index::object_of;
use crate::links::{HEAD, Links, unmarked};
use crate::reader::Window;
use rustc_hash::FxHashMap;

/// Blocks that containers lead to in new tables: more are left out.
const MOST_ENTRIES: usize = 1 << 21;

/// What containers with a new table lead to.
#[derive(Default)]
pub(crate) struct Moved(FxHashMap<u32, Vec<u32>>);

impl Moved {
    /// Looks at every container again: one that moved did not lead to its table of now when it was read.
    pub(crate) fn find(ground: &Ground<'_, '_>, graph: &Graph) -> Self {
        let Ground { reader, index, links, tables, .. } = *ground;
        let mut cursors = Cursors::default();
        let limit = ground.limit();
        let lead_of =
            |tag| object_of(tag).and_then(|kind| links.get(kind)).filter(|lead| lead.is_container());
        let (mut window, mut entries) = (Window::new(64 << 10), Window::new(64 << 10));
        let (mut moved, mut count) = (FxHashMap::default(), 0);
        index.for_each_wanted(
            |tag| lead_of(tag).is_some(),
            |slot, tag, _| {
                let Some(lead) = lead_of(tag).filter(|_| reader.effort() < limit && count < MOST_ENTRIES)
                else {
                    return;
                };
                let at = slot.start + lead.at;
                let need = HEAD.min(slot.end.saturating_sub(at) as usize);
                let Some(head) = window.at(reader, at, need, u64::MAX) else { return };
                let mut known = |table| {
                    let Some(seen) = index.find(table).filter(|seen| tables.contains(seen.id)) else {
                        return false;
                    };
                    let mut led = false;
                    let each = |below| led |= below == seen.id;
                    graph.below((slot.id, What::Object), (Words::All, |_| true), &mut cursors, each);
                    // What led nowhere that matters, as nearly all small ones do, has no list.
                    led || graph.lists.number(slot.id).is_none()
                };
                if Links::table(head, (slot, lead)).is_none_or(|(table, _)| known(table)) {
                    return;
                }
                let Some((_, range)) = links.table_now(reader, head, (slot, lead)) else { return };
                let mut below: Vec<u32> = Vec::new();
                entries.words(reader, range, |_, stored| {
                    below.extend(links.target(index, unmarked(stored)).map(|slot| slot.id));
                });
                below.sort_unstable();
                below.dedup();
                count += below.len();
                moved.insert(slot.id, below);
            },
        );
        Self(moved)
    }

    /// Whether none did.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What one of them leads to.
    pub(crate) fn below(&self, id: u32) -> &[u32] {
        if self.0.is_empty() { &[] } else { self.0.get(&id).map_or(&[], Vec::as_slice) }
    }

    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        self.0.values().map(|below| below.capacity() as u64 * 4 + 40).sum()
    }
}
