//! Reads one process again and again, as cheaply as the kernel allows.
//!
//! `statm`, `stat` and `status` stay open and are read with one `pread` into a buffer on the stack, so a steady tick
//! allocates nothing. `smaps_rollup` stalls the job's mmap for as long as it is read (50 to 130 ms at 4 to 12 GB),
//! so it is read only when asked, opened anew. Not here: deciding when to read what.

use crate::identity::{self, Identity};
use crate::open_file::{Kind, OpenFile, read_capped, refusal, refusal_in};
use crate::pagemap::{self, ExclusivePages};
use crate::parse::{self, Stat, Statm, Status};
use crate::{Root, host};
use lowtide_model::{ProcKey, Pss, Reading};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Enough for `statm`: seven numbers.
const STATM: usize = 160;
/// Enough for `stat`: 52 numbers and a name.
const STAT: usize = 1024;
/// Enough for `status` of a user in a few hundred groups; more goes to the heap.
const STATUS: usize = 4096;

/// Reads the life line of any process, without keeping anything open.
pub fn stat_of(root: &Root, pid: u32) -> Reading<Stat> {
    stat_at(&root.process(pid))
}

fn stat_at(process: &Path) -> Reading<Stat> {
    let mut buffer = [0; STAT];
    let read = File::open(process.join("stat")).and_then(|mut file| file.read(&mut buffer));
    match read {
        Ok(count) => parse::stat(buffer.get(..count).unwrap_or_default()).into(),
        Err(error) => refusal(&error, Kind::Process),
    }
}

/// One process, held by descriptors that cannot become another process's.
#[derive(Debug)]
pub struct ProcessReader {
    root: Root,
    dir: PathBuf,
    key: ProcKey,
    page: u64,
    statm: OpenFile,
    stat: OpenFile,
    status: Option<OpenFile>,
}

impl ProcessReader {
    /// Opens the process that has this pid now.
    pub fn open(root: &Root, pid: u32) -> Reading<Self> {
        let dir = root.process(pid);
        let open = |name: &str| OpenFile::open(dir.join(name));
        let (stat, statm) = match (open("stat"), open("statm")) {
            (Ok(stat), Ok(statm)) => (stat, statm),
            (Err(error), _) | (_, Err(error)) => return refusal(&error, Kind::Process),
        };
        stat.parse::<STAT, _>(Kind::Process, parse::stat).map(|first| Self {
            root: root.clone(),
            key: ProcKey { pid, start_ticks: first.start_ticks },
            page: host::page_bytes(),
            dir,
            statm,
            stat,
            status: None,
        })
    }

    /// Opens the process only if it is still this one.
    pub fn open_key(root: &Root, key: ProcKey) -> Reading<Self> {
        Self::open(root, key.pid)
            .and_then(|reader| if reader.key == key { Reading::Known(reader) } else { Reading::Gone })
    }

    /// Who it is.
    pub const fn key(&self) -> ProcKey {
        self.key
    }

    /// The cheap numbers (about half a microsecond).
    pub fn quick(&mut self) -> Reading<Statm> {
        let page = self.page;
        self.of_this(|reader| {
            reader.statm.parse::<STATM, _>(Kind::Process, |bytes| parse::statm(bytes, page))
        })
    }

    /// The life line: parent, state, faults, CPU time, threads.
    pub fn stat(&mut self) -> Reading<Stat> {
        let start = self.key.start_ticks;
        let stat = self.stat.parse::<STAT, _>(Kind::Process, parse::stat);
        stat.and_then(|stat| if stat.start_ticks == start { Reading::Known(stat) } else { Reading::Gone })
    }

    /// What kind of memory it is. The descriptor is taken at the first call.
    pub fn status(&mut self) -> Reading<Status> {
        if self.status.is_none() {
            match OpenFile::open(self.dir.join("status")) {
                Ok(file) => self.status = Some(file),
                Err(error) => return refusal(&error, Kind::Process),
            }
            // Between our first look and this open the pid may have got a new owner.
            if self.stat().as_known().is_none() {
                self.status = None;
                return Reading::Gone;
            }
        }
        self.of_this(|reader| match &reader.status {
            Some(file) => file.parse::<STATUS, _>(Kind::Process, parse::status),
            None => Reading::Gone,
        })
    }

    /// The sharing split, with how long the read held the job's memory map. Never call it on a timer.
    pub fn rollup(&mut self) -> Reading<(Pss, Duration)> {
        let begun = Instant::now();
        let bytes = match read_capped(&self.dir.join("smaps_rollup"), 1 << 16) {
            Ok(bytes) => bytes,
            Err(error) => return refusal_in(&error, &self.dir),
        };
        let held = begun.elapsed();
        // By path, so make sure that it was still this process.
        self.stat().and_then(|_| Reading::from(parse::smaps_rollup(&bytes)).map(|pss| (pss, held)))
    }

    /// Who it says it is. Read it again after an exec.
    pub fn identity(&mut self) -> Identity {
        let identity = identity::read(&self.root, self.key.pid);
        if self.stat().as_known().is_some() { identity } else { Identity::gone() }
    }

    /// Sums the anonymous pages that nobody else maps, from `pagemap`, for at most `budget`.
    pub fn exclusive_pages(&mut self, budget: Duration) -> Reading<ExclusivePages> {
        let pages = pagemap::exclusive(&self.dir, self.page, budget);
        self.stat().and_then(|_| pages)
    }

    /// Guards reads that go by path because we ran out of descriptors.
    fn of_this<T>(&mut self, read: impl Fn(&Self) -> Reading<T>) -> Reading<T> {
        let value = read(self);
        let kept = self.statm.is_kept() && self.status.as_ref().is_none_or(OpenFile::is_kept);
        if kept { value } else { self.stat().and_then(|_| value) }
    }
}
