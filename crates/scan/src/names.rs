//! Names a person knows: texts, and the keys of dicts. Values of the user's data are never kept.

use crate::reader::{Reader, is_readable, plausible, word};
use crate::types::{self, Version};
use rustc_hash::FxHashMap;

/// Names longer than this are no names.
const LONGEST: u64 = 200;
/// Entries of a dict that are looked at for a name: `__module__` and `__name__` are among the first.
const MOST_ENTRIES: u64 = 64;

/// Offsets in a dict, the same from 3.9 to 3.14.
pub(crate) const DICT_USED: u64 = 16;
pub(crate) const DICT_KEYS: u64 = 32;
pub(crate) const DICT_VALUES: u64 = 40;

/// What a block may have behind a table, less than: what is too little for another block, and a page where it has a mapping of its
/// own.
const SLACK: u64 = 32;
const ROUNDED_TO_PAGE: u64 = 4096 + SLACK;
/// Bytes of an entry that has the hash of its key, in a dict and in a set.
const DICT_ENTRY: u64 = 24;
const SET_ENTRY: u64 = 16;

/// The text of a plain `str`, and of nothing else: the words of a tuple or a number, and what lies behind them, can look like one,
/// and would be somebody's data.
pub(crate) fn text(reader: &Reader<'_>, version: Version, address: u64) -> Option<String> {
    if !plausible(address) || !types::is_text(reader, address) {
        return None;
    }
    let Form { width, ascii } = Form::of(version, reader.word(address + 32)?)?;
    let length = reader.word(address + 16).filter(|length| (1..=LONGEST).contains(length))?;
    let begin = address + if version >= Version(3, 12) { 40 } else { 48 };
    let text = if ascii {
        ascii_text(reader, begin, length)
    } else {
        // Behind two more words, three before 3.12.
        wide_text(reader, begin + (begin - address - 24), (length, width))
    };
    text.filter(|text| is_readable(text))
}

/// How a `str` in one piece has its letters: bytes of one, and whether all are ASCII.
struct Form {
    width: u64,
    ascii: bool,
}

impl Form {
    /// Width, "in one piece", "ASCII only": behind two bits, or behind sixteen. What is not in one piece (of a class that is derived)
    /// has its letters elsewhere.
    fn of(version: Version, state: u64) -> Option<Self> {
        let shifts: &[u32] = if version >= Version(3, 13) { &[2, 16] } else { &[2] };
        shifts.iter().find_map(|shift| {
            let flags = state >> shift & 0x1f;
            let (width, ascii) = (flags & 7, flags & 0x10 != 0);
            let fits = flags & 8 != 0 && (width == 1 || !ascii && matches!(width, 2 | 4));
            fits.then_some(Self { width, ascii })
        })
    }
}

fn ascii_text(reader: &Reader<'_>, begin: u64, length: u64) -> Option<String> {
    let mut bytes = vec![0; length as usize + 1];
    let fine = reader.cached(begin, &mut bytes) && bytes.pop() == Some(0) && bytes.is_ascii();
    fine.then(|| String::from_utf8(bytes).ok()).flatten()
}

/// With other letters than ASCII: each has one, two or four bytes.
fn wide_text(reader: &Reader<'_>, begin: u64, (length, width): (u64, u64)) -> Option<String> {
    let mut bytes = vec![0; (length * width) as usize];
    if !reader.cached(begin, &mut bytes) {
        return None;
    }
    let number = |letter: &[u8]| letter.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    bytes.chunks_exact(width as usize).map(|letter| char::from_u32(number(letter))).collect()
}

/// Where the entries of a dict's table lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) entries: u64,
    pub(crate) count: u64,
    /// Bytes of an entry; its key comes right before its value.
    pub(crate) step: u64,
    /// Offset of the key.
    pub(crate) key: u64,
}

impl Table {
    /// Bytes of the head of a keys object.
    pub(crate) const HEAD: usize = 40;

    /// Reads the head of a keys object.
    pub(crate) fn read(reader: &Reader<'_>, version: Version, keys: u64) -> Option<Self> {
        let mut head = [0; Self::HEAD];
        if !plausible(keys) || !reader.cached(keys, &mut head) {
            return None;
        }
        Self::of(&head, version, keys)
    }

    /// The same from a head that was read.
    pub(crate) fn of(head: &[u8; Self::HEAD], version: Version, keys: u64) -> Option<Self> {
        let (indices, count, step, begin) = if version >= Version(3, 11) {
            let (index_log, kind) = (head[9], head[10]);
            let step = if kind == 0 { DICT_ENTRY } else { 16 };
            (1_u64.checked_shl(u32::from(index_log)).filter(|_| index_log < 40)?, word(head, 24), step, 32)
        } else {
            let size = word(head, 8);
            (size.checked_mul(index_width(size))?, word(head, 32), DICT_ENTRY, 40)
        };
        let entries = keys.checked_add(begin)?.checked_add(indices)?;
        (plausible(entries) && count < 1 << 32).then_some(Self { entries, count, step, key: step - 16 })
    }

    /// How many of a block's bytes are of a keys object, if it begins with one that fills it but for what allocators round up
    /// to: what is behind that is left from before.
    /// With it, where the hashes of its keys are, if it has some.
    pub(crate) fn length(
        head: &[u8; Self::HEAD],
        version: Version,
        block: u64,
    ) -> Option<(u64, Option<Hashes>)> {
        const ROUNDED: u64 = 16;
        let extent = Extent::of(head, version)?;
        extent.fills(block, ROUNDED).then(|| (extent.length, extent.hashes()))
    }

    /// Where in a block the hashes of keys are, if it begins with a keys object that has some and fills it, but for a page that
    /// was mapped for all of it.
    pub(crate) fn hashes(head: &[u8; Self::HEAD], version: Version, block: u64) -> Option<Hashes> {
        let extent = Extent::of(head, version)?;
        extent.hashes().filter(|_| extent.fills(block, ROUNDED_TO_PAGE))
    }

    /// Whether the value of an entry is at an address: the word before it is its key, and before a key is somebody's value.
    pub(crate) fn has_value_at(&self, address: u64) -> bool {
        let first = self.entries + self.key + 8;
        let inside = address.checked_sub(first).filter(|bytes| bytes / self.step < self.count);
        inside.is_some_and(|bytes| bytes.is_multiple_of(self.step))
    }

    /// Key and value of an entry.
    pub(crate) fn entry(&self, reader: &Reader<'_>, number: u64) -> Option<(u64, u64)> {
        let at = self.entries.checked_add(number.checked_mul(self.step)?)?.checked_add(self.key)?;
        Some((reader.word(at)?, reader.word(at + 8)?))
    }
}

/// How many bytes into a table the first hash of a key is. An entry of a dict is a hash, a key and a value; one of a set a key
/// and a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hashes {
    OfDict(u64),
    OfSet(u64),
}

impl Hashes {
    pub(crate) const OF_ENTRIES: Self = Self::OfDict(0);
    pub(crate) const OF_SET: Self = Self::OfSet(8);

    /// The same, if a block of so many bytes can be the table of a set: its places are a power of two.
    pub(crate) fn filter_size(self, block: u64) -> Option<Self> {
        const MAPPED: u64 = 64 << 10;
        let table = 1_u64.checked_shl(block.checked_ilog2()?)?;
        let rounded = if block < MAPPED { SLACK } else { ROUNDED_TO_PAGE };
        (block - table < rounded).then_some(self)
    }

    /// The same further on by so many bytes.
    pub(crate) fn behind(self, bytes: u64) -> Self {
        match self {
            Self::OfDict(first) => Self::OfDict(first + bytes),
            Self::OfSet(first) => Self::OfSet(first + bytes),
        }
    }

    /// Whether one is so many bytes into the table.
    #[inline]
    pub(crate) fn is_at(self, offset: u64) -> bool {
        match self {
            Self::OfDict(first) => offset >= first && (offset - first).is_multiple_of(DICT_ENTRY),
            Self::OfSet(first) => offset >= first && (offset - first).is_multiple_of(SET_ENTRY),
        }
    }
}

/// How far a keys object goes, where its entries begin, and bytes of one.
struct Extent {
    length: u64,
    entries: u64,
    step: u64,
}

impl Extent {
    fn of(head: &[u8; Table::HEAD], version: Version) -> Option<Self> {
        let (size, indices, step, begin, free, used) = if version >= Version(3, 11) {
            let [size_log, index_log, kind] = [head[8], head[9], head[10]];
            let power = |log: u8| 1_u64.checked_shl(u32::from(log)).filter(|_| log < 40);
            let step = if kind == 0 { DICT_ENTRY } else { 16 };
            (
                power(size_log).filter(|_| kind < 3)?,
                power(index_log)?,
                step,
                32,
                word(head, 16),
                word(head, 24),
            )
        } else {
            let size = word(head, 8).min(1 << 40);
            (size, size * index_width(size), DICT_ENTRY, 40, word(head, 24), word(head, 32))
        };
        // Two thirds of its places can be taken, at most: fewer where instances share it.
        let entries =
            free.checked_add(used).filter(|entries| size >= 8 && (1..=size * 2 / 3).contains(entries))?;
        let length = begin + indices + entries * step;
        Some(Self { length, entries: begin + indices, step })
    }

    /// Whether a block is full of it but for less than so many bytes.
    fn fills(&self, block: u64, rounded: u64) -> bool {
        self.length <= block && block - self.length < rounded
    }

    fn hashes(&self) -> Option<Hashes> {
        (self.step == DICT_ENTRY).then_some(Hashes::OfDict(self.entries))
    }
}

/// Bytes of a number of an entry, before 3.11.
fn index_width(size: u64) -> u64 {
    match size {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

/// The value of a dict under a name. Only combined tables: those of modules and classes.
///
/// Such names are one text each in the whole interpreter: where it is known, no other key has to be read.
pub(crate) fn in_dict(reader: &Reader<'_>, version: Version, dict: u64, name: &'static str) -> Option<u64> {
    let entries = first_entries(reader, version, dict)?;
    let is_name = |key: u64| {
        reader.word(key.checked_add(16)?).filter(|length| *length == name.len() as u64)?;
        text(reader, version, key).filter(|text| text == name)
    };
    let known = reader.text_of(name);
    let usual = entries.iter().find(|(key, _)| Some(*key) == known && is_name(*key).is_some());
    let (key, value) = usual.or_else(|| entries.iter().find(|(key, _)| is_name(*key).is_some()))?;
    reader.remember_text(name, *key);
    Some(*value)
}

/// The first keys and values of a dict, as many as are looked at.
fn first_entries(reader: &Reader<'_>, version: Version, dict: u64) -> Option<Vec<(u64, u64)>> {
    let keys = if plausible(dict) { reader.word(dict + DICT_KEYS) } else { None }?;
    let table = Table::read(reader, version, keys)?;
    let mut bytes = vec![0; (table.count.min(MOST_ENTRIES) * table.step) as usize];
    if !reader.cached(table.entries, &mut bytes) {
        return Some(
            (0..table.count.min(MOST_ENTRIES)).map_while(|number| table.entry(reader, number)).collect(),
        );
    }
    let entry = |entry: &[u8]| (word(entry, table.key as usize), word(entry, table.key as usize + 8));
    Some(bytes.chunks_exact(table.step as usize).map(entry).collect())
}

/// Whether a dict is the namespace of a module: those begin with their own name.
pub(crate) fn is_namespace(reader: &Reader<'_>, version: Version, dict: u64) -> bool {
    let keys = if plausible(dict) { reader.word(dict + DICT_KEYS) } else { None };
    let table = keys.and_then(|keys| Table::read(reader, version, keys)).filter(|table| table.count > 0);
    let first = table.and_then(|table| table.entry(reader, 0));
    first.is_some_and(|(key, _)| text(reader, version, key).as_deref() == Some("__name__"))
}

/// Those of some dicts that are namespaces of modules, all read together: there are thousands, here and there.
pub(crate) fn namespaces(reader: &Reader<'_>, version: Version, dicts: &[u64]) -> Vec<u64> {
    let heads = pieces::<{ DICT_KEYS as usize + 8 }>(reader, dicts);
    let keys = heads.iter().map(|(dict, head)| (*dict, word(head, DICT_KEYS as usize)));
    let (dicts, keys): (Vec<u64>, Vec<u64>) = keys.unzip();
    let of: FxHashMap<u64, u64> = keys.iter().copied().zip(dicts).collect();
    let tables = pieces::<{ Table::HEAD }>(reader, &keys);
    let firsts = tables.iter().filter_map(|(keys, head)| {
        let table = Table::of(head, version, *keys).filter(|table| table.count > 0)?;
        Some((table.entries.checked_add(table.key)?, *of.get(keys)?))
    });
    let (firsts, dicts): (Vec<u64>, Vec<u64>) = firsts.unzip();
    let of: FxHashMap<u64, u64> = firsts.iter().copied().zip(dicts).collect();
    // One text for all of them, as a rule.
    let mut known: FxHashMap<u64, bool> = FxHashMap::default();
    let mut is_name = |key: u64| {
        *known.entry(key).or_insert_with(|| text(reader, version, key).as_deref() == Some("__name__"))
    };
    let keys = pieces::<8>(reader, &firsts);
    keys.iter()
        .filter(|(_, key)| is_name(word(key, 0)))
        .filter_map(|(first, _)| of.get(first).copied())
        .collect()
}

/// The first bytes at each of some addresses, where they can be read.
pub(crate) fn pieces<const LENGTH: usize>(
    reader: &Reader<'_>,
    addresses: &[u64],
) -> Vec<(u64, [u8; LENGTH])> {
    let addresses: Vec<u64> = addresses.iter().copied().filter(|address| plausible(*address)).collect();
    let mut bytes = vec![0; addresses.len() * LENGTH];
    let (mut at, mut found) = (0, Vec::with_capacity(addresses.len()));
    while at < addresses.len() {
        let got = reader.fill_each(&addresses[at..], LENGTH, &mut bytes[at * LENGTH..]);
        let read = bytes[at * LENGTH..].as_chunks::<LENGTH>().0.iter().take(got);
        found.extend(addresses[at..].iter().copied().zip(read.copied()));
        // The one behind them could not be read, or was one too many.
        at += got.max(1);
    }
    found
}

/// The same as [`in_dict`] where the value is a text.
pub(crate) fn text_in_dict(
    reader: &Reader<'_>,
    version: Version,
    dict: u64,
    name: &'static str,
) -> Option<String> {
    text(reader, version, in_dict(reader, version, dict, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(words: [u64; 5]) -> [u8; Table::HEAD] {
        let mut head = [0; Table::HEAD];
        for (place, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        head
    }

    #[test]
    fn hashes_are_before_the_keys_of_a_dict_and_behind_those_of_a_set() {
        // Eight places, five entries of 24 bytes behind a head of 32 and an index of eight.
        let general = head([1, 3 | 3 << 8, 5, 0, 0]);
        let hashes = Table::hashes(&general, Version(3, 13), 160).unwrap();
        let found: Vec<u64> = (0..160).step_by(8).filter(|at| hashes.is_at(*at)).collect();
        assert_eq!(found, [40, 64, 88, 112, 136]);
        assert_eq!(Table::hashes(&general, Version(3, 13), 160 + 4096), Some(hashes), "a mapping of its own");
        assert_eq!(Table::hashes(&general, Version(3, 13), 160 + 8192), None, "it does not fill the block");
        let text = head([1, 3 | 3 << 8 | 1 << 16, 2, 3, 0]);
        assert_eq!(Table::hashes(&text, Version(3, 12), 128), None, "keys that are all texts have none here");
        let sized = |block| Hashes::OF_SET.filter_size(block).is_some();
        assert!(sized(512) && sized(2048 + 24) && sized((1 << 20) + 4096) && !sized(0));
        assert!(!sized(2048 + 40) && !sized(6000) && !sized(3 << 19), "no table of a set has such a size");
        let found: Vec<u64> = (0..48).step_by(8).filter(|at| Hashes::OF_SET.behind(16).is_at(*at)).collect();
        assert_eq!(found, [24, 40]);
    }

    #[test]
    fn a_table_ends_where_its_entries_do_and_not_where_its_block_does() {
        // Eight places, five entries of 16 bytes, three taken: 32 + 8 + 80 bytes in a block of 128.
        let text = head([1, 3 | 3 << 8 | 1 << 16, 2, 3, 0]);
        assert_eq!(Table::length(&text, Version(3, 12), 128), Some((120, None)));
        assert_eq!(Table::length(&text, Version(3, 12), 144), None, "it does not fill the block");
        assert_eq!(Table::length(&text, Version(3, 12), 112), None, "it does not fit the block");
        let general = head([1, 3 | 3 << 8, 5, 0, 0]);
        assert_eq!(Table::length(&general, Version(3, 13), 160), Some((160, Some(Hashes::OfDict(40)))));
        let old = head([1, 8, 0x7f00_0000_1000, 4, 1]);
        assert_eq!(Table::length(&old, Version(3, 10), 176).map(|found| found.0), Some(168));
        assert_eq!(
            Table::length(&head([1, 8, 0, 4, 2]), Version(3, 10), 176),
            None,
            "six entries in five places"
        );
        assert_eq!(Table::length(&head([u64::MAX; 5]), Version(3, 9), 1 << 20), None);
        assert_eq!(Table::hashes(&head([u64::MAX; 5]), Version(3, 9), 1 << 20), None);
        assert_eq!(Table::length(&head([u64::MAX; 5]), Version(3, 14), 1 << 20), None);
    }
}
