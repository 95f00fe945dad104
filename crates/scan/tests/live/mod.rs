//! A living process for tests: its pages through `/proc/PID/mem`, only those that were resident at the beginning.

#![allow(clippy::expect_used, reason = "test code: a process that is not there fails the test")]

use lowtide_model::Bytes;
use lowtide_scan::{Facts, Mapping, Memory, PythonFacts, SYMBOLS};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

/// The type of an ELF file that is loaded where it says.
const ET_EXEC: u8 = 2;

/// A living process.
pub(crate) struct Live {
    mappings: Vec<Mapping>,
    present: Vec<(u64, u64)>,
    memory: File,
    pid: u32,
}

impl Live {
    pub(crate) fn open(pid: u32) -> Self {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
        let mappings: Vec<Mapping> = maps.lines().filter_map(mapping).collect();
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).expect("pagemap");
        let present = mappings.iter().flat_map(|map| resident(&pagemap, map)).collect();
        Self { mappings, present, memory: File::open(format!("/proc/{pid}/mem")).expect("mem"), pid }
    }

    /// The interpreter of a process, its symbols by `nm`.
    pub(crate) fn python(pid: u32) -> Option<PythonFacts> {
        python(pid)
    }

    /// What `/proc/PID/status` says.
    pub(crate) fn facts(pid: u32) -> Facts {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
            Bytes::from_kib(kib.unwrap_or(0))
        };
        Facts {
            rss_anon_bytes: of("RssAnon:"),
            rss_file_bytes: of("RssFile:"),
            rss_shmem_bytes: of("RssShmem:"),
            swap_bytes: of("VmSwap:"),
            ..Facts::default()
        }
    }
}

fn python(pid: u32) -> Option<PythonFacts> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let first = maps.lines().filter_map(mapping).filter(|map| map.offset == 0);
    let (map, minor) =
        first.filter_map(|map| minor(&map.name).map(|minor| (map, minor))).max_by_key(is_library)?;
    // A program that is not relocatable has its symbols where it says.
    let kind = fs::read(&map.name).ok()?.get(16).copied();
    let base = if kind == Some(ET_EXEC) { 0 } else { map.start };
    let listed = Command::new("nm").args(["-D", "--defined-only", &map.name]).output().ok()?;
    let symbols = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let address = u64::from_str_radix(fields.next()?, 16).ok()?;
            let name = fields.nth(1)?.split('@').next()?.to_owned();
            SYMBOLS.contains(&name.as_str()).then_some((name, base + address))
        })
        .collect();
    Some(PythonFacts { version: (3, minor), found: "nm".into(), symbols, free_threaded: false })
}

/// Of a shared interpreter and of one that is all in its program.
fn minor(name: &str) -> Option<u8> {
    let file = name.rsplit('/').next()?;
    let rest = file.strip_prefix("lib").unwrap_or(file).strip_prefix("python3.")?;
    rest.split('.').next()?.parse().ok()
}

fn is_library((map, _): &(Mapping, u8)) -> bool {
    map.name.contains("/libpython3.")
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let letters = fields.next()?;
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    let has = |letter: char| letters.contains(letter);
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok().filter(|end| end >> 63 == 0)?,
        readable: has('r'),
        writable: has('w'),
        executable: has('x'),
        shared: has('s'),
        offset,
        inode,
        name: fields.collect::<Vec<_>>().join(" "),
    })
}

fn resident(pagemap: &File, map: &Mapping) -> Vec<(u64, u64)> {
    let pages = ((map.end - map.start) / 4096) as usize;
    let mut runs: Vec<(u64, u64)> = Vec::new();
    if !map.readable || map.name.starts_with("[v") {
        return runs;
    }
    let mut words = vec![0_u8; pages.min(1 << 16) * 8];
    for first in (0..pages).step_by(1 << 16) {
        let count = (pages - first).min(1 << 16);
        let got =
            pagemap.read_at(&mut words[..count * 8], (map.start / 4096 + first as u64) * 8).unwrap_or(0);
        for (at, word) in words[..got].chunks_exact(8).enumerate() {
            if word[7] & 0x80 == 0 {
                continue;
            }
            let start = map.start + (first + at) as u64 * 4096;
            match runs.last_mut() {
                Some(last) if last.1 == start => last.1 += 4096,
                _ => runs.push((start, start + 4096)),
            }
        }
    }
    runs
}

impl Memory for Live {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn end_now(&self, address: u64) -> Option<u64> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).ok()?;
        let mut mappings = maps.lines().filter_map(mapping);
        mappings.find(|map| (map.start..map.end).contains(&address)).map(|map| map.end)
    }

    fn present(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let first = self.present.partition_point(|run| run.1 <= start);
        let inside = self.present[first..].iter().take_while(|run| run.0 < end);
        inside.map(|run| (run.0.max(start), run.1.min(end))).collect()
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let at = self.present.partition_point(|run| run.1 <= address);
        let Some(run) = self.present.get(at).filter(|run| run.0 <= address) else { return 0 };
        let count = into.len().min((run.1 - address) as usize);
        self.memory.read_at(&mut into[..count], address).unwrap_or(0)
    }
}
