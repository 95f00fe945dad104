//! From a page to what lies on it: two tables, so that a look costs two loads.

/// The first table is made of zero pages that only exist where something was found.
#[derive(Default)]
pub(crate) struct Directory {
    /// By the upper part of an address: number of a table and one, 0 for none.
    first: Vec<u16>,
    tables: Vec<Box<[u32]>>,
    /// Long ranges that need no table: start, end and entry, ascending.
    wide: Vec<(u64, u64, u32)>,
}

/// In the first table: one of the long ranges.
const WIDE: u16 = u16::MAX;
/// Bytes of one table.
const TABLE_BYTES: u64 = 1 << TABLE_SHIFT;

const PAGE_SHIFT: u32 = 12;
const TABLE_SHIFT: u32 = 12 + 14;
/// Addresses end at 2^47.
const FIRST: usize = 1 << (47 - TABLE_SHIFT);
/// A page of a pool that was seen and not read yet: no pointer to it leads to a type.
pub(crate) const EXPECTED: u32 = QUIET - 1;
/// Set in an entry when the span has blocks that are no objects: only those can be owned.
pub(crate) const HAS_RAW: u32 = 1 << 31;
/// Set in an entry when no block of the span leads to one that is asked for, and none is itself.
pub(crate) const QUIET: u32 = 1 << 30;

impl Directory {
    /// Bytes this takes.
    pub(crate) fn own_bytes(&self) -> u64 {
        (self.tables.len() * (4 << 14) + self.wide.capacity() * 24) as u64
    }

    /// Sets the entry of one block with pages of its own, however long. Ascending.
    pub(crate) fn set_wide(&mut self, start: u64, end: u64, value: u32) {
        let from = start.checked_next_multiple_of(TABLE_BYTES).unwrap_or(u64::MAX);
        let to = end & !(TABLE_BYTES - 1);
        if from >= to {
            return self.set(start, end, value);
        }
        self.set(start, from, value);
        self.set(to, end, value);
        let blocks = (from >> TABLE_SHIFT) as usize..(to >> TABLE_SHIFT) as usize;
        if let Some(places) = self.first.get_mut(blocks) {
            places.fill(WIDE);
            self.wide.push((from, to, value));
        }
    }

    pub(crate) fn set(&mut self, start: u64, end: u64, value: u32) {
        if self.first.is_empty() {
            self.first = vec![0; FIRST];
        }
        for page in start >> PAGE_SHIFT..end.saturating_add(0xfff) >> PAGE_SHIFT {
            let Some(place) = self.first.get_mut((page >> (TABLE_SHIFT - PAGE_SHIFT)) as usize) else {
                return;
            };
            if *place == 0 {
                if self.tables.len() >= usize::from(WIDE) - 1 {
                    return;
                }
                self.tables.push(vec![0; 1 << (TABLE_SHIFT - PAGE_SHIFT)].into());
                *place = self.tables.len() as u16;
            }
            if let Some(table) = self.tables.get_mut(usize::from(*place) - 1) {
                table[(page & 0x3fff) as usize] = value;
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, address: u64) -> u32 {
        match self.first.get((address >> TABLE_SHIFT) as usize) {
            None | Some(0) => 0,
            Some(&WIDE) => self.get_wide(address),
            Some(table) => self.tables[usize::from(*table) - 1][(address >> PAGE_SHIFT & 0x3fff) as usize],
        }
    }

    #[cold]
    fn get_wide(&self, address: u64) -> u32 {
        let after = self.wide.partition_point(|(start, ..)| *start <= address);
        let range = after.checked_sub(1).and_then(|at| self.wide.get(at));
        range.filter(|(_, end, _)| address < *end).map_or(0, |(.., value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_range_takes_no_tables_and_ends_where_it_ends() {
        let mut directory = Directory::default();
        let (start, end) = (0x7000_0000_3000, 0x7400_0000_5000);
        directory.set(0x6fff_0000_0000, 0x6fff_0000_4000, 3);
        directory.set_wide(start, end, 7);
        directory.set(end, end + 0x1000, 9);
        for address in [start, start + (1 << 40), end - 1] {
            assert_eq!(directory.get(address), 7, "{address:#x}");
        }
        assert_eq!((directory.get(start - 1), directory.get(end), directory.get(end + 0x1000)), (0, 9, 0));
        assert_eq!(directory.get(0x6fff_0000_3fff), 3);
        assert!(directory.own_bytes() < 1 << 20);
    }
}
