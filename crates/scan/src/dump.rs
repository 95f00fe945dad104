//! A process's pages saved to a file, so that tests and fuzzing can scan the same memory again and again.
//!
//! Layout, all numbers little-endian u64: the magic `lowtide dump 1\n` and a NUL; number of mappings, then for each
//! start, end, flags (1 read, 2 write, 4 execute, 8 shared), offset, inode, length of the name, the name; number of runs, then
//! for each start and length; then the bytes of all runs in the same order. Runs ascend and never overlap.
//! No command of lowtide writes one: the user's data would be in it.

use crate::memory::{Mapping, Memory};
use std::io::{self, Write};

const MAGIC: &[u8; 16] = b"lowtide dump 1\n\0";
/// Names longer than this are no names.
const LONGEST_NAME: u64 = 4096;

/// No program has memory from here on: so nobody who goes on from an address has to fear its end.
const HIGHEST: u64 = 1 << 56;

/// Why bytes are not a dump.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DumpError {
    /// Not ours.
    #[error("this is not a saved memory dump")]
    Magic,
    /// Shorter than it says.
    #[error("the dump ends too early")]
    Short,
    /// Out of order, overlapping, or where no program has memory.
    #[error("the dump has ranges that overlap, run backwards or lie too high")]
    Order,
}

/// A saved dump, in memory.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    mappings: Vec<Mapping>,
    /// Start, and where its bytes begin and end in `bytes`.
    runs: Vec<(u64, usize, usize)>,
    bytes: Vec<u8>,
}

impl Dump {
    /// An empty process with these mappings.
    pub fn new(mappings: Vec<Mapping>) -> Self {
        Self { mappings, runs: Vec::new(), bytes: Vec::new() }
    }

    /// Adds a run of resident bytes after all others; gives false, and adds nothing, if it is not after them.
    pub fn push(&mut self, start: u64, bytes: &[u8]) -> bool {
        let after = self.runs.last().is_none_or(|(last, from, to)| last + (to - from) as u64 <= start);
        if !after || start.checked_add(bytes.len() as u64).is_none() {
            return false;
        }
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.runs.push((start, from, self.bytes.len()));
        true
    }

    /// Copies everything resident and readable of a process.
    pub fn of(memory: &dyn Memory) -> Self {
        let mut dump = Self::new(memory.mappings().to_vec());
        let mut buffer = vec![0_u8; 1 << 20];
        for mapping in memory.mappings().iter().filter(|mapping| mapping.readable) {
            for (start, end) in memory.present(mapping.start, mapping.end) {
                let mut at = start;
                while at < end {
                    let want = buffer.len().min((end - at) as usize);
                    let got = memory.read(at, &mut buffer[..want]);
                    if got == 0 || !dump.push(at, &buffer[..got]) {
                        break;
                    }
                    at += got as u64;
                }
            }
        }
        dump
    }

    /// The bytes of every run, for tests that damage them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Writes the format above.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        let mut head = MAGIC.to_vec();
        let number = |value: u64, head: &mut Vec<u8>| head.extend_from_slice(&value.to_le_bytes());
        number(self.mappings.len() as u64, &mut head);
        for map in &self.mappings {
            let flags = u64::from(map.readable)
                | u64::from(map.writable) << 1
                | u64::from(map.executable) << 2
                | u64::from(map.shared) << 3;
            for value in [map.start, map.end, flags, map.offset, map.inode, map.name.len() as u64] {
                number(value, &mut head);
            }
            head.extend_from_slice(map.name.as_bytes());
        }
        number(self.runs.len() as u64, &mut head);
        for (start, from, upto) in &self.runs {
            number(*start, &mut head);
            number((upto - from) as u64, &mut head);
        }
        to.write_all(&head)?;
        to.write_all(&self.bytes)
    }

    /// Reads the format above; never takes more memory than a small multiple of `bytes`.
    pub fn read_from(bytes: &[u8]) -> Result<Self, DumpError> {
        let mut input = Input(bytes);
        if input.take(MAGIC.len() as u64)? != MAGIC {
            return Err(DumpError::Magic);
        }
        let mut mappings: Vec<Mapping> = Vec::new();
        for _ in 0..input.number()? {
            let mapping = input.mapping()?;
            if mapping.start >= mapping.end || mappings.last().is_some_and(|last| last.end > mapping.start) {
                return Err(DumpError::Order);
            }
            mappings.push(mapping);
        }
        let mut dump = Self::new(mappings);
        let mut at = 0_usize;
        let mut free = 0_u64;
        for _ in 0..input.number()? {
            let (start, length) = (input.number()?, input.number()?);
            let end = start.checked_add(length).ok_or(DumpError::Order)?;
            if start < free || length > bytes.len() as u64 || end > HIGHEST {
                return Err(DumpError::Order);
            }
            dump.runs.push((start, at, at + length as usize));
            at += length as usize;
            free = end;
        }
        dump.bytes = input.take(at as u64)?.to_vec();
        Ok(dump)
    }
}

impl Memory for Dump {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn present(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let first = self.runs.partition_point(|(at, from, to)| at + (to - from) as u64 <= start);
        let inside = self.runs[first..].iter().take_while(|(at, ..)| *at < end);
        let cut = inside.map(|(at, from, to)| ((*at).max(start), (at + (to - from) as u64).min(end)));
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (from, to) in cut.filter(|(from, to)| from < to) {
            match runs.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => runs.push((from, to)),
            }
        }
        runs
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        let mut run = self.runs.partition_point(|(at, from, to)| at + (to - from) as u64 <= address);
        while done < into.len() {
            let at = address.saturating_add(done as u64);
            let Some((start, from, to)) = self.runs.get(run).copied().filter(|(start, ..)| *start <= at)
            else {
                break;
            };
            let skip = (at - start) as usize;
            let count = (to - from).saturating_sub(skip).min(into.len() - done);
            into[done..done + count].copy_from_slice(&self.bytes[from + skip..from + skip + count]);
            done += count;
            run += 1;
        }
        done
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8], DumpError> {
        let count = usize::try_from(count).map_err(|_| DumpError::Short)?;
        let (taken, rest) = self.0.split_at_checked(count).ok_or(DumpError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, DumpError> {
        let taken = self.take(8)?;
        Ok(taken.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn mapping(&mut self) -> Result<Mapping, DumpError> {
        let (start, end, flags) = (self.number()?, self.number()?, self.number()?);
        let (offset, inode, length) = (self.number()?, self.number()?, self.number()?);
        if length > LONGEST_NAME {
            return Err(DumpError::Short);
        }
        let name = String::from_utf8_lossy(self.take(length)?).into_owned();
        let has = |bit: u64| flags & bit != 0;
        let (readable, writable, executable, shared) = (has(1), has(2), has(4), has(8));
        Ok(Mapping { start, end, readable, writable, executable, shared, offset, inode, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Dump {
        let map = |start, end, name: &str| Mapping {
            start,
            end,
            readable: true,
            name: name.into(),
            ..Mapping::default()
        };
        let mut dump = Dump::new(vec![map(0x1000, 0x4000, "[heap]"), map(0x8000, 0x9000, "")]);
        assert!(dump.push(0x1000, &[1; 0x1000]));
        assert!(dump.push(0x2000, &[2; 0x1000]));
        assert!(dump.push(0x8000, &[3; 0x1000]));
        assert!(!dump.push(0x8800, &[4]), "a run inside another one is refused");
        dump
    }

    #[test]
    fn a_dump_reads_back_as_it_was_written() {
        let dump = sample();
        let mut file = Vec::new();
        dump.write(&mut file).unwrap();
        let back = Dump::read_from(&file).unwrap();
        assert_eq!(back.mappings(), dump.mappings());
        assert_eq!(back.bytes, dump.bytes);
        assert_eq!(back.runs, dump.runs);
    }

    #[test]
    fn a_read_goes_over_adjacent_runs_and_stops_at_a_hole() {
        let dump = sample();
        let mut into = [0; 0x3000];
        assert_eq!(dump.read(0x1800, &mut into), 0x1800);
        assert_eq!((into[0], into[0x800], into[0x17ff]), (1, 2, 2));
        assert_eq!(dump.read(0x3000, &mut into), 0);
        assert_eq!(dump.present(0, u64::MAX), [(0x1000, 0x3000), (0x8000, 0x9000)]);
        assert_eq!(dump.present(0x2800, 0x8800), [(0x2800, 0x3000), (0x8000, 0x8800)]);
    }

    proptest! {
        #[test]
        fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), magic in any::<bool>()) {
            let mut file = if magic { MAGIC.to_vec() } else { Vec::new() };
            file.extend(bytes);
            let _ = Dump::read_from(&file);
        }

        #[test]
        fn a_damaged_dump_reads_or_is_refused(at in 0_usize..400, value in any::<u8>(), cut in 0_usize..20_000) {
            let mut file = Vec::new();
            sample().write(&mut file).unwrap();
            let place = at % file.len();
            file[place] = value;
            file.truncate(cut);
            if let Ok(dump) = Dump::read_from(&file) {
                let mut into = [0; 64];
                dump.mappings().iter().for_each(|map| { dump.read(map.start, &mut into); dump.present(map.start, map.end); });
            }
        }
    }
}
