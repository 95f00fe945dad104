//! A live process as a scan sees it: its pages, and the facts that its pages don't tell.

use super::Refusal;
use lowtide_model::{Bytes, Reading};
use lowtide_probe::memory::{
    Doors, Held, LiveMemory, Region, Symbol, python_malloc_of, stack_pointers, symbols,
};
use lowtide_probe::{ProcessReader, Root, Status, host};
use lowtide_scan::{Facts, Mapping, Memory, PythonFacts, SYMBOLS};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

/// A process that asked for it is held still for at most this long.
const LONGEST_STOP: Duration = Duration::from_millis(500);
/// The number of the version, in Pythons from 3.11 on.
const VERSION: &str = "Py_Version";
/// Only builds without the GIL export this one.
const FREE_THREADED: &str = "_Py_DecRefShared";

/// The pages of a live process.
pub(super) struct Target {
    memory: LiveMemory,
    mappings: Vec<Mapping>,
    held: RefCell<Option<Held>>,
    stopped: RefCell<Duration>,
    /// Its directory in `/proc`, and the files that were opened of those it maps.
    process: PathBuf,
    files: RefCell<BTreeMap<String, Option<File>>>,
}

impl Target {
    pub(super) fn open(root: &Root, pid: u32, doors: Option<[i32; 3]>) -> Result<Self, Refusal> {
        let memory = match doors {
            Some(numbers) => {
                let doors = Doors::handed(numbers).map_err(|_| Refusal::Unsupported)?;
                LiveMemory::through(doors, host::page_bytes()).map_err(|_| Refusal::Gone)?
            }
            None => known(LiveMemory::open(root, pid))?,
        };
        let memory = memory.directly(pid);
        let mappings = memory.regions().iter().map(mapping).collect();
        Ok(Self {
            memory,
            mappings,
            held: RefCell::default(),
            stopped: RefCell::default(),
            process: root.process(pid),
            files: RefCell::default(),
        })
    }

    /// The mapping that `address` lies in, if it is of a file and nobody may write to it.
    fn unwritten(&self, address: u64) -> Option<&Region> {
        let regions = self.memory.regions();
        let region = regions.get(regions.partition_point(|region| region.end <= address))?;
        let file = region.inode != 0 && !region.writable && region.may_be_read();
        Some(region).filter(|region| file && region.start <= address)
    }

    /// The file of a mapping as the process sees it, as long as it still is that one.
    fn open_file(&self, region: &Region) -> Option<File> {
        let path = region.name.strip_prefix('/').filter(|name| !name.ends_with(" (deleted)"))?;
        let path = self.process.join("root").join(path);
        std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
        File::open(path).ok()
    }

    /// Holds the process still until the scan ends or takes too long.
    pub(super) fn stop(&self, root: &Root, pid: u32) -> Result<(), Refusal> {
        match Held::stop(root, pid) {
            Reading::Known(held) => *self.held.borrow_mut() = Some(held),
            Reading::Gone => return Err(Refusal::Gone),
            Reading::Denied | Reading::Unsupported => return Err(Refusal::NotStopped),
        }
        Ok(())
    }

    /// Lets it go. Gives how long it was held.
    pub(super) fn release(&self) -> Duration {
        if let Some(held) = self.held.borrow_mut().take() {
            *self.stopped.borrow_mut() = held.length();
        }
        *self.stopped.borrow()
    }

    /// A process is held for so long and not longer, however much is still to be read.
    fn release_in_time(&self) {
        let long = self.held.borrow().as_ref().is_some_and(|held| held.length() > LONGEST_STOP);
        if long {
            self.release();
        }
    }

    /// Whether what was read is still its memory: a process that ends, and one that becomes another program, has given it back.
    pub(super) fn is_there(&self) -> bool {
        self.memory.is_there()
    }

    /// What the pages don't tell.
    pub(super) fn facts(&self, root: &Root, pid: u32, handed: Vec<u64>) -> Result<Facts, Refusal> {
        let status = known(known(ProcessReader::open(root, pid))?.status())?;
        let size = |of: fn(&Status) -> Option<Bytes>| of(&status).unwrap_or(Bytes::ZERO);
        let pointers = if handed.is_empty() { stack_pointers(root, pid) } else { handed };
        Ok(Facts {
            page_bytes: self.memory.page_bytes(),
            rss_anon_bytes: size(|status| status.anon),
            rss_file_bytes: size(|status| status.file),
            rss_shmem_bytes: size(|status| status.shmem),
            swap_bytes: size(|status| status.swap),
            python: self.python(root, pid),
            python_malloc: python_malloc_of(root, pid),
            stack_pointers: pointers,
        })
    }

    fn python(&self, root: &Root, pid: u32) -> Option<PythonFacts> {
        let mut names = SYMBOLS.to_vec();
        names.extend([VERSION, FREE_THREADED]);
        let found = symbols(root, pid, self.memory.regions(), &names);
        let file = &found.first()?.file;
        let (version, how) = self.version(&found, file)?;
        let kept = found.iter().filter(|symbol| SYMBOLS.contains(&symbol.name.as_str()));
        Some(PythonFacts {
            version,
            found: format!("{how} of {file}"),
            symbols: kept.map(|symbol| (symbol.name.clone(), symbol.address)).collect(),
            free_threaded: found.iter().any(|symbol| symbol.name == FREE_THREADED),
        })
    }

    fn version(&self, found: &[Symbol], file: &str) -> Option<((u8, u8), &'static str)> {
        let told = found.iter().find(|symbol| symbol.name == VERSION).and_then(|symbol| {
            let mut word = [0; 8];
            (self.memory.read(symbol.address, &mut word) == 8).then(|| u64::from_le_bytes(word))
        });
        if let Some(number) = told.filter(|number| number >> 24 == 3) {
            return Some(((3, (number >> 16) as u8), "symbols"));
        }
        let regions = self.memory.regions().iter().map(|region| region.name.as_str());
        std::iter::once(file).chain(regions).find_map(version_in).map(|version| (version, "symbols and name"))
    }
}

impl Memory for Target {
    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn present(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        self.memory.present(start, end)
    }

    fn resident(&self, start: u64, end: u64) -> u64 {
        self.memory.resident_bytes(start, end)
    }

    fn renew(&self, address: u64) {
        self.memory.renew(address);
    }

    fn end_now(&self, address: u64) -> Option<u64> {
        self.memory.end_now(address)
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.release_in_time();
        self.memory.read(address, into)
    }

    fn in_file(&self, address: u64, into: &mut [u8]) -> usize {
        let Some(region) = self.unwritten(address) else { return 0 };
        let mut files = self.files.borrow_mut();
        let file = files.entry(region.name.clone()).or_insert_with(|| self.open_file(region));
        let length = into.len().min((region.end - address) as usize);
        let place = region.offset.saturating_add(address - region.start);
        file.as_ref().and_then(|file| file.read_at(&mut into[..length], place).ok()).unwrap_or(0)
    }

    fn read_each(&self, addresses: &[u64], length: usize, into: &mut [u8]) -> usize {
        self.release_in_time();
        self.memory.read_each(addresses, length, into)
    }
}

fn mapping(region: &Region) -> Mapping {
    Mapping {
        start: region.start,
        end: region.end,
        readable: region.readable,
        writable: region.writable,
        executable: region.executable,
        shared: region.shared,
        offset: region.offset,
        inode: region.inode,
        name: region.name.clone(),
    }
}

fn known<T>(reading: Reading<T>) -> Result<T, Refusal> {
    match reading {
        Reading::Known(value) => Ok(value),
        Reading::Denied => Err(Refusal::Denied),
        Reading::Gone => Err(Refusal::Gone),
        Reading::Unsupported => Err(Refusal::Unsupported),
    }
}

/// The version in a name such as `libpython3.9.so.1.0`, `python3.10` or `_json.cpython-39-x86_64-linux-gnu.so`.
fn version_in(name: &str) -> Option<(u8, u8)> {
    let behind = |mark: &str| {
        let at = name.rfind(mark)? + mark.len();
        let digits: String = name.get(at..)?.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u8>().ok()
    };
    behind("python3.").or_else(|| behind("cpython-3")).map(|minor| (3, minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_scan::Settings;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn what_a_file_has_is_read_of_it_and_only_where_nobody_may_write() {
        let target = Target::open(&Root::live(), std::process::id(), None).unwrap();
        let regions = target.memory.regions();
        let code = regions.iter().find(|region| region.executable && region.inode != 0).unwrap();
        let first = regions.iter().find(|region| region.name == code.name && region.offset == 0).unwrap();
        let mut bytes = [0; 8];
        assert_eq!((target.in_file(first.start, &mut bytes), &bytes[..4]), (8, b"\x7fELF".as_slice()));
        assert_eq!(target.in_file(first.end - 4, &mut bytes), 4, "never past the mapping");
        let written = regions.iter().find(|region| region.writable && region.name == code.name).unwrap();
        assert_eq!(target.in_file(written.start, &mut bytes), 0);
        assert_eq!(target.in_file(1 << 12, &mut bytes), 0);
    }

    /// Its dicts are there, and of the page that has their type's name the kernel was told that it is not needed.
    const FORGETFUL: &str = "
import ctypes, sys
held = [{} for _ in range(1000)]
rows = [line.split() for line in open('/proc/self/maps')]
advise = ctypes.CDLL(None).madvise
advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
for code, texts in zip(rows, rows[1:]):
    if code[1] == 'r-xp' and texts[1] == 'r--p' and code[5:] == texts[5:] and 'python' in str(code[5:]):
        start, end = (int(place, 16) for place in texts[0].split('-'))
        advise(start, end - start, 4)
print('ready', flush=True)
sys.stdin.read()
";

    #[test]
    fn types_whose_names_are_not_in_memory_are_known_all_the_same() {
        let mut child = Command::new("python3")
            .args(["-c", FORGETFUL])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (root, pid) = (Root::live(), child.id());
        let target = Target::open(&root, pid, None).unwrap();
        let facts = target.facts(&root, pid, Vec::new()).unwrap();
        let scan = lowtide_scan::scan(&target, &facts, &Settings::default());
        let (_, _) = (child.kill(), child.wait());
        let dicts = scan.types.iter().find(|row| row.name == "dict" && row.module == "builtins");
        assert!(dicts.is_some_and(|row| row.count >= 1000), "{line}{dicts:?}");
    }

    #[test]
    fn versions_stand_in_names() {
        assert_eq!(version_in("/usr/lib/libpython3.9.so.1.0"), Some((3, 9)));
        assert_eq!(version_in("/opt/bin/python3.10"), Some((3, 10)));
        assert_eq!(version_in("/x/python3.13t"), Some((3, 13)));
        assert_eq!(version_in("/x/_json.cpython-39-x86_64-linux-gnu.so"), Some((3, 9)));
        assert_eq!(version_in("/x/_json.cpython-312-x86_64-linux-gnu.so"), Some((3, 12)));
        assert_eq!(version_in("/usr/bin/python"), None);
        assert_eq!(version_in("python3.999"), None);
    }
}
