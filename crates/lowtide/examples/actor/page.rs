//! A mark page of a native program, as docs/marks.md tells it: written and read by plain file calls.

use lowtide_probe::clock::boot_ns;
use lowtide_wire::page;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

const UNKNOWN: u64 = u64::MAX;

/// What a mark is of.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Eval = 3,
    Save = 4,
    Info = 6,
}

/// Where in it.
#[derive(Clone, Copy)]
pub(crate) enum Phase {
    Start = 1,
    End = 2,
    Point = 3,
}

/// The page of this process.
pub(crate) struct Page {
    file: File,
    head: u64,
}

impl Page {
    /// None without a recorder, or where the page can't be made.
    pub(crate) fn open() -> Option<Self> {
        let folder = PathBuf::from(std::env::var_os("LOWTIDE_MARKS")?);
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let start: u64 = stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()?;
        let pid = u64::from(std::process::id());
        let name = format!("{pid}.{start}");
        let made = folder.join(format!(".{name}.tmp"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&made).ok()?;
        let page = Self { file, head: 0 };
        page.file.set_len(page::PAGE_BYTES as u64).ok()?;
        page.file.write_all_at(&page::MAGIC, 0).ok()?;
        let unknown = [32, 40, 112, 120, 128].map(|at| (at, UNKNOWN));
        let known = [(8, page::VERSION), (16, pid), (24, start), (48, 2), (56, page::CAN_STOP)];
        known.into_iter().chain(unknown).for_each(|(at, value)| page.put(at, value));
        page.put(80, f64::NAN.to_bits());
        std::fs::rename(&made, folder.join(name)).ok()?;
        Some(page)
    }

    fn put(&self, at: u64, value: u64) {
        let _ = self.file.write_all_at(&value.to_le_bytes(), at);
    }

    fn get(&self, at: u64) -> u64 {
        let mut eight = [0; 8];
        self.file.read_exact_at(&mut eight, at).map_or(0, |()| u64::from_le_bytes(eight))
    }

    /// A step has ended.
    pub(crate) fn step(&self, number: u64) {
        self.put(72, boot_ns());
        self.put(64, number);
    }

    pub(crate) fn mark(&mut self, kind: Kind, phase: Phase, number: f64, extra: &str) {
        let at = page::slot_at(self.head) as u64;
        let extra = &extra.as_bytes()[..extra.len().min(page::EXTRA_BYTES)];
        let mut slot = [boot_ns().to_le_bytes(), [0; 8], number.to_bits().to_le_bytes()].concat();
        slot[8..10].copy_from_slice(&[kind as u8, phase as u8]);
        slot[10..12].copy_from_slice(&(extra.len() as u16).to_le_bytes());
        slot[12..16].copy_from_slice(&(-1_i32).to_le_bytes());
        slot.extend_from_slice(extra);
        self.put(at, 0);
        let _ = self.file.write_all_at(&slot, at + 8);
        self.head += 1;
        self.put(at, self.head);
        self.put(512, self.head);
    }

    /// The number of a request to save and stop that is new: taken up with this.
    pub(crate) fn take_request(&self) -> Option<u64> {
        let request = page::REQUEST_AT as u64;
        let number = self.get(request + 8);
        let is_new = self.get(request) == page::SAVE_AND_STOP && number > self.get(272);
        is_new.then(|| {
            self.put(272, number);
            number
        })
    }

    /// That request was carried out.
    pub(crate) fn carried_out(&self, number: u64) {
        self.put(280, number);
    }
}
