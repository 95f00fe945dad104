//! Zip files: what `torch.save`, Lightning, Keras and NumPy write. Their directory stands at the end and is written last.

use super::{Flaw, Source, u64_at};

const END: u32 = 0x0605_4b50;
const END_BYTES: u64 = 22;
const WIDE_LOCATOR: u32 = 0x0706_4b50;
const WIDE_LOCATOR_BYTES: u64 = 20;
const WIDE_END: u32 = 0x0606_4b50;
const WIDE_END_BYTES: u64 = 56;
const ENTRY: u32 = 0x0201_4b50;
const ENTRY_BYTES: u64 = 46;
const LOCAL: u32 = 0x0403_4b50;
const LOCAL_BYTES: u64 = 30;
/// A comment may follow the end record.
const LONGEST_COMMENT: u64 = 65_535;
/// Entries whose own header is looked at; the directory names all of them.
const MOST_LOOKED_AT: u64 = 256;
/// A window over the directory: two names and two extras of the greatest length fit.
const WINDOW: usize = 256 * 1024;
/// An entry that stands for the number 2^32 - 1 says the real one in its extra field.
const WIDE: u64 = 0xffff_ffff;

/// What the directory says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Archive {
    /// Files in it.
    pub(crate) entries: u64,
    /// Where the pickle of a `torch.save` begins, and its length.
    pub(crate) pickle: Option<(u64, u64)>,
}

/// How a zip begins.
pub(crate) fn begins(first: &[u8]) -> bool {
    first.starts_with(b"PK\x03\x04") || first.starts_with(b"PK\x05\x06")
}

/// Reads the end record and the directory, and compares them with the file.
pub(crate) fn archive(source: &(impl Source + ?Sized)) -> Result<Archive, Flaw> {
    let directory = directory(source)?;
    let mut window = Window { source, at: 0, bytes: Vec::new() };
    let mut found = Archive { entries: directory.entries, pickle: None };
    let mut at = directory.at;
    for number in 0..directory.entries {
        let entry = Entry::read(&mut window, at, &directory)?;
        at = entry.next;
        if number < MOST_LOOKED_AT || number + 1 == directory.entries || entry.is_pickle {
            let begin = entry.begin(source)?;
            if entry.is_pickle {
                found.pickle = Some((begin, entry.bytes));
            }
        }
    }
    Ok(found)
}

struct Directory {
    at: u64,
    end: u64,
    entries: u64,
}

fn directory(source: &(impl Source + ?Sized)) -> Result<Directory, Flaw> {
    let (at, record) = end_record(source)?;
    let small = |offset| u64::from(u16_of(&record, offset));
    let large = |offset| u64::from(u32_of(&record, offset));
    let (mut entries, mut bytes, mut begin, mut end) = (small(10), large(12), large(16), at);
    if entries == 0xffff || bytes == WIDE || begin == WIDE {
        let wide_at = wide_end(source, at)?;
        end = wide_at;
        entries = u64_at(source, wide_at + 32)?;
        bytes = u64_at(source, wide_at + 40)?;
        begin = u64_at(source, wide_at + 48)?;
    }
    if begin.checked_add(bytes).is_none_or(|behind| behind > end) {
        return Err(Flaw::wrong("has a directory that reaches beyond its end"));
    }
    if entries.checked_mul(ENTRY_BYTES).is_none_or(|least| least > bytes) {
        return Err(Flaw::wrong("names more files than its directory can hold"));
    }
    Ok(Directory { at: begin, end: begin + bytes, entries })
}

/// The end record is the last one whose comment reaches to the end of the file.
fn end_record(source: &(impl Source + ?Sized)) -> Result<(u64, Vec<u8>), Flaw> {
    let size = source.size();
    let reach = size.min(END_BYTES + LONGEST_COMMENT);
    let mut tail = vec![0; reach as usize];
    source.fill(size - reach, &mut tail)?;
    let last = tail.len().checked_sub(END_BYTES as usize).ok_or_else(no_end)?;
    let fits =
        |at: &usize| u32_of(&tail, *at) == END && tail.len() - at - 22 == usize::from(u16_of(&tail, at + 20));
    let at = (0..=last).rev().find(fits).ok_or_else(no_end)?;
    Ok((size - reach + at as u64, tail[at..at + END_BYTES as usize].to_vec()))
}

fn no_end() -> Flaw {
    Flaw::cut("has no end record: it is being written, or its writer was stopped")
}

/// Where the end record for large files stands.
fn wide_end(source: &(impl Source + ?Sized), end: u64) -> Result<u64, Flaw> {
    let missing = || Flaw::wrong("is a large zip without the end record of one");
    let locator_at = end.checked_sub(WIDE_LOCATOR_BYTES).ok_or_else(missing)?;
    let mut locator = [0; WIDE_LOCATOR_BYTES as usize];
    source.fill(locator_at, &mut locator)?;
    let at = u64::from_le_bytes(locator[8..16].try_into().unwrap_or_default());
    let fits = at.checked_add(WIDE_END_BYTES).is_some_and(|behind| behind <= locator_at);
    if u32_of(&locator, 0) != WIDE_LOCATOR || !fits {
        return Err(missing());
    }
    let mut signature = [0; 4];
    source.fill(at, &mut signature)?;
    if u32::from_le_bytes(signature) == WIDE_END { Ok(at) } else { Err(missing()) }
}

struct Entry {
    local: u64,
    bytes: u64,
    next: u64,
    is_pickle: bool,
    /// Where the directory begins: no file of the archive may reach into it.
    limit: u64,
}

impl Entry {
    fn read<S: Source + ?Sized>(
        window: &mut Window<'_, S>,
        at: u64,
        directory: &Directory,
    ) -> Result<Self, Flaw> {
        let wrong = || Flaw::wrong("has a directory that makes no sense");
        let head = window.bytes(at, ENTRY_BYTES, directory.end)?;
        if u32_of(head, 0) != ENTRY {
            return Err(wrong());
        }
        let (method, name, extra) = (u16_of(head, 10), u16_of(head, 28), u16_of(head, 30));
        let (name, extra, comment) = (u64::from(name), u64::from(extra), u64::from(u16_of(head, 32)));
        let sizes = [u32_of(head, 24), u32_of(head, 20), u32_of(head, 42)].map(u64::from);
        let rest = window.bytes(at + ENTRY_BYTES, name + extra, directory.end)?;
        let (name_bytes, extra_bytes) = rest.split_at(name as usize);
        let is_pickle = method == 0 && name_bytes.ends_with(b"/data.pkl");
        let [_, bytes, local] = widened(sizes, extra_bytes).ok_or_else(wrong)?;
        let next = at + ENTRY_BYTES + name + extra + comment;
        Ok(Self { local, bytes, next, is_pickle, limit: directory.at })
    }

    /// Where its contents begin, by its own header.
    fn begin(&self, source: &(impl Source + ?Sized)) -> Result<u64, Flaw> {
        let wrong = || Flaw::wrong("names a file in its directory that is not there");
        let mut head = [0; LOCAL_BYTES as usize];
        if self.local.checked_add(LOCAL_BYTES).is_none_or(|behind| behind > self.limit) {
            return Err(wrong());
        }
        source.fill(self.local, &mut head)?;
        let names = u64::from(u16_of(&head, 26)) + u64::from(u16_of(&head, 28));
        let begin = self.local + LOCAL_BYTES + names;
        let fits = begin.checked_add(self.bytes).is_some_and(|behind| behind <= self.limit);
        if u32_of(&head, 0) == LOCAL && fits { Ok(begin) } else { Err(wrong()) }
    }
}

/// Size, size in the file and place of an entry, with the wide ones from its extra field.
fn widened(mut sizes: [u64; 3], mut extra: &[u8]) -> Option<[u64; 3]> {
    if !sizes.contains(&WIDE) {
        return Some(sizes);
    }
    while extra.len() >= 4 {
        let (kind, length) = (u16_of(extra, 0), usize::from(u16_of(extra, 2)));
        let mut field = extra.get(4..4 + length)?;
        if kind == 1 {
            for size in sizes.iter_mut().filter(|size| **size == WIDE) {
                let (number, rest) = field.split_first_chunk::<8>()?;
                *size = u64::from_le_bytes(*number);
                field = rest;
            }
            return Some(sizes);
        }
        extra = &extra[4 + length..];
    }
    None
}

/// The directory is read through this: it may be long, and memory is not.
struct Window<'a, S: ?Sized> {
    source: &'a S,
    at: u64,
    bytes: Vec<u8>,
}

impl<S: Source + ?Sized> Window<'_, S> {
    fn bytes(&mut self, at: u64, length: u64, end: u64) -> Result<&[u8], Flaw> {
        if at.checked_add(length).is_none_or(|behind| behind > end) {
            return Err(Flaw::wrong("has a directory that ends too early"));
        }
        let inside = at >= self.at && at + length <= self.at + self.bytes.len() as u64;
        if !inside {
            let reach = (end - at).min(WINDOW as u64) as usize;
            self.bytes.resize(reach, 0);
            self.source.fill(at, &mut self.bytes)?;
            self.at = at;
        }
        let from = (at - self.at) as usize;
        Ok(&self.bytes[from..from + length as usize])
    }
}

fn u16_of(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|two| two.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn u32_of(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}
