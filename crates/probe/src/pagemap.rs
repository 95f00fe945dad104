//! Tells pages a process has for itself from pages it still shares since a fork.
//!
//! Why: a forked worker that writes to inherited pages copies them one by one; its RSS stays the same while the
//! machine's memory goes down. `pagemap` marks each page that only one process maps. The file holds on to the old
//! memory after an exec, so it is opened anew each time. Cost: about 10 ms for each GB with 4 KiB pages.

use crate::open_file::{CAP, read_capped, refusal_in};
use crate::parse::{self, Mapping};
use lowtide_model::{Bytes, Reading};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Anonymous memory by who maps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExclusivePages {
    /// Pages only this process maps.
    pub exclusive: Bytes,
    /// Pages others map too: what copy-on-write still has to copy.
    pub shared: Bytes,
    /// Pages in swap.
    pub swapped: Bytes,
    /// How long it took.
    pub took: Duration,
    /// Whether the whole process was seen before the time was up.
    pub complete: bool,
}

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FILE_OR_SHARED: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;
/// Bytes read at once: 32 Ki pages, so the memory map is held for about a millisecond at a time.
const CHUNK: usize = 256 << 10;

/// Sums over all private mappings; reserved ones without access hold nothing and can be huge.
pub(crate) fn exclusive(process: &Path, page: u64, budget: Duration) -> Reading<ExclusivePages> {
    let begun = Instant::now();
    let opened = read_capped(&process.join("maps"), CAP)
        .and_then(|maps| File::open(process.join("pagemap")).map(|pagemap| (maps, pagemap)));
    let (maps, pagemap) = match opened {
        Ok(both) => both,
        Err(error) => return refusal_in(&error, process),
    };
    let mut sum = Sum { page, buffer: vec![0; CHUNK], ..Sum::default() };
    let mut complete = maps.len() < CAP;
    for mapping in parse::lines(&maps).filter_map(parse::mapping).filter(|map| map.private && map.accessible)
    {
        match sum.add(&pagemap, mapping, || begun.elapsed() < budget) {
            Ok(whole) => complete &= whole,
            Err(error) => return refusal_in(&error, process),
        }
        if !complete {
            break;
        }
    }
    Reading::Known(sum.finish(begun.elapsed(), complete))
}

#[derive(Default)]
struct Sum {
    page: u64,
    buffer: Vec<u8>,
    exclusive: u64,
    shared: u64,
    swapped: u64,
}

impl Sum {
    fn add(
        &mut self,
        pagemap: &File,
        mapping: Mapping,
        may_go_on: impl Fn() -> bool,
    ) -> std::io::Result<bool> {
        let end = mapping.end / self.page * 8;
        let mut at = mapping.start / self.page * 8;
        while at < end {
            if !may_go_on() {
                return Ok(false);
            }
            let want = (end - at).min(CHUNK as u64) as usize;
            let Some(buffer) = self.buffer.get_mut(..want) else {
                return Ok(false);
            };
            let count = pagemap.read_at(buffer, at)?;
            if count < 8 {
                return Ok(true);
            }
            at += (count / 8 * 8) as u64;
            self.count(count);
        }
        Ok(true)
    }

    fn count(&mut self, bytes: usize) {
        let (entries, _) = self.buffer.get(..bytes).unwrap_or_default().as_chunks::<8>();
        for entry in entries {
            let entry = u64::from_ne_bytes(*entry);
            if entry & PRESENT != 0 && entry & FILE_OR_SHARED == 0 {
                let exclusive = u64::from(entry & EXCLUSIVE != 0);
                self.exclusive += exclusive;
                self.shared += 1 - exclusive;
            } else {
                self.swapped += u64::from(entry & SWAPPED != 0);
            }
        }
    }

    fn finish(&self, took: Duration, complete: bool) -> ExclusivePages {
        let bytes = |pages| Bytes::from_pages(pages, self.page);
        ExclusivePages {
            exclusive: bytes(self.exclusive),
            shared: bytes(self.shared),
            swapped: bytes(self.swapped),
            took,
            complete,
        }
    }
}
