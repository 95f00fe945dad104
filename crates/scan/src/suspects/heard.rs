//! Which texts of the target are names that people suspect: heard while objects are counted.

use super::SUSPECTS;
use crate::reader::{Reader, word};
use crate::types::{Version, text_type};
use rustc_hash::FxHashMap;

/// Texts that are names.
const MOST_NAMES: usize = 4096;

/// Texts of the target that are a suspect's name, by address. Heard while objects are counted.
pub(crate) struct Names {
    /// Where text begins in a text object.
    offset: usize,
    /// Bits of the lengths that names have, and of the letters they begin with.
    lengths: u64,
    letters: [u64; 4],
    known: FxHashMap<u64, usize>,
    /// The lowest of them and the highest.
    range: (u64, u64),
    /// Bits by address: most words are no name, and one load tells.
    filter: Box<[u64; FILTER]>,
}

const FILTER: usize = 64;

impl Names {
    pub(crate) fn new(version: Version) -> Self {
        Self {
            offset: if version >= Version(3, 12) { 40 } else { 48 },
            lengths: SUSPECTS.iter().fold(0, |bits, (name, _)| bits | 1 << name.len()),
            letters: SUSPECTS.iter().fold([0; 4], |mut bits, (name, _)| {
                name.bytes().take(1).for_each(|letter| bits[usize::from(letter) / 64] |= 1 << (letter % 64));
                bits
            }),
            known: FxHashMap::default(),
            range: (u64::MAX, 0),
            filter: Box::new([0; FILTER]),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// From where to where names are.
    pub(crate) fn range(&self) -> (u64, u64) {
        self.range
    }

    const fn place(address: u64) -> (usize, u64) {
        let hash = (address >> 4 ^ address >> 16) as usize % (FILTER * 64);
        (hash / 64, 1 << (hash % 64))
    }

    /// The name at an address.
    #[inline]
    pub(crate) fn get(&self, address: u64) -> Option<usize> {
        if self.may_be(address) { self.known.get(&address).copied() } else { None }
    }

    /// Whether a name could be at an address. Quick to say no.
    #[inline]
    pub(crate) fn may_be(&self, address: u64) -> bool {
        let (word, bit) = Self::place(address);
        self.filter[word] & bit != 0
    }

    /// Takes note of a text object, given its first bytes.
    #[inline]
    pub(crate) fn hear(&mut self, bytes: &[u8], at: u64) {
        let length = word(bytes, 16);
        let first = usize::from(bytes.get(self.offset).copied().unwrap_or(0));
        if length < 64 && self.lengths >> length & 1 == 1 && self.letters[first / 64] >> (first % 64) & 1 == 1
        {
            self.compare(bytes, length as usize, at);
        }
    }

    fn compare(&mut self, bytes: &[u8], length: usize, at: u64) {
        let text = bytes.get(self.offset..self.offset + length);
        let same = |(name, _): &(&str, &str)| text == Some(name.as_bytes());
        if let Some(suspect) = SUSPECTS.iter().position(same)
            && self.known.len() < MOST_NAMES
        {
            let (word, bit) = Self::place(at);
            self.filter[word] |= bit;
            self.known.insert(at, suspect);
            self.range = (self.range.0.min(at), self.range.1.max(at));
        }
    }

    /// From 3.11 on, names the standard library uses as well are part of the interpreter's own data: of the file that the type of
    /// types is in. Which type texts have is in there too: not every process has one of them where it was read already.
    pub(crate) fn look_in_the_interpreter(&mut self, reader: &Reader<'_>, type_type: u64) {
        let data = data_of(reader, type_type);
        let Some(text_type) = data.iter().find_map(|(start, bytes)| text_type(bytes, *start, type_type))
        else {
            return;
        };
        for (start, bytes) in &data {
            let places = (0..bytes.len().saturating_sub(64)).step_by(8);
            for at in places.filter(|at| word(bytes, at + 8) == text_type) {
                self.hear(&bytes[at..], start + at as u64);
            }
        }
    }
}

/// The written data of the file that an address is in, as much of it as is there.
fn data_of(reader: &Reader<'_>, address: u64) -> Vec<(u64, Vec<u8>)> {
    const LARGEST: u64 = 64 << 20;
    let mappings = reader.memory().mappings();
    let Some(own) = mappings.iter().find(|map| (map.start..map.end).contains(&address)) else {
        return Vec::new();
    };
    let data = mappings.iter().filter(|map| map.readable && map.writable && !map.shared && map.inode != 0);
    let data = data.filter(|map| map.name == own.name && map.end - map.start <= LARGEST);
    let runs = data.flat_map(|map| reader.memory().present(map.start, map.end));
    let read = |(start, end): (u64, u64)| {
        let mut bytes = vec![0; (end - start) as usize];
        let got = reader.fill(start, &mut bytes);
        bytes.truncate(got);
        (start, bytes)
    };
    runs.map(read).collect()
}
