//! The machine: memory, swap, OOM kills, pressure, /dev/shm, and the facts that do not change.

use crate::Root;
use crate::open_file::{Kind, OpenFile, read_feature};
use crate::parse::{self, Meminfo};
use lowtide_model::{Bytes, Pressure, Reading};
use std::path::PathBuf;

/// The page size of this machine.
pub fn page_bytes() -> u64 {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    page.ok().flatten().and_then(|page| u64::try_from(page).ok()).unwrap_or(4096)
}

/// One look at the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostReading {
    /// Memory and swap.
    pub memory: Reading<Meminfo>,
    /// OOM kills since boot, those in memory cgroups included.
    pub oom_kills: Reading<u64>,
    /// Pressure on memory.
    pub pressure: Reading<Pressure>,
    /// /dev/shm.
    pub dev_shm: Reading<Space>,
}

/// How full a file system is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Its size.
    pub total: Bytes,
    /// What is taken.
    pub used: Bytes,
    /// What is left for who asks; less than the rest where some is kept for root.
    pub available: Bytes,
}

/// What does not change while the machine runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Kernel release.
    pub kernel: String,
    /// CPUs online: the kernel's RSS error grows with them.
    pub cpus: u32,
    /// Page size.
    pub page_bytes: u64,
    /// Changes with every boot.
    pub boot_id: String,
    /// Host name.
    pub name: String,
}

/// The machine, with the files kept open.
#[derive(Debug)]
pub struct Host {
    meminfo: Reading<OpenFile>,
    vmstat: Reading<OpenFile>,
    pressure: Reading<OpenFile>,
    dev_shm: PathBuf,
}

impl Host {
    /// Opens the machine's files.
    pub fn open(root: &Root) -> Self {
        let open = |name: &str| OpenFile::open_feature(root.proc.join(name));
        Self {
            meminfo: open("meminfo"),
            vmstat: open("vmstat"),
            pressure: open("pressure/memory"),
            dev_shm: root.dev_shm.clone(),
        }
    }

    /// Reads them.
    pub fn read(&mut self) -> HostReading {
        HostReading {
            memory: from::<4096, _>(&self.meminfo, parse::meminfo),
            oom_kills: self.oom_kills(),
            pressure: from::<512, _>(&self.pressure, parse::pressure),
            dev_shm: space(&self.dev_shm),
        }
    }

    /// OOM kills since boot alone.
    pub fn oom_kills(&mut self) -> Reading<u64> {
        from::<16384, _>(&self.vmstat, parse::oom_kills)
    }
}

/// Reads a file that may not have been there to open.
pub(crate) fn from<const N: usize, T>(
    file: &Reading<OpenFile>,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Reading<T> {
    match file {
        Reading::Known(file) => file.parse::<N, T>(Kind::Feature, parse),
        Reading::Unsupported => Reading::Unsupported,
        Reading::Denied => Reading::Denied,
        Reading::Gone => Reading::Gone,
    }
}

/// How much of the file system is taken on which this lies, and how much is left for who asks.
pub fn space(path: &std::path::Path) -> Reading<Space> {
    match nix::sys::statvfs::statvfs(path) {
        // A file system without a size has no limit to hold against.
        Ok(stat) if stat.blocks() == 0 => Reading::Unsupported,
        Ok(stat) => {
            let size = |blocks: u64| Bytes::from_pages(blocks, stat.fragment_size());
            Reading::Known(Space {
                total: size(stat.blocks()),
                used: size(stat.blocks().saturating_sub(stat.blocks_free())),
                available: size(stat.blocks_available()),
            })
        }
        Err(nix::errno::Errno::EACCES) => Reading::Denied,
        Err(_) => Reading::Unsupported,
    }
}

/// Reads the facts. What cannot be had is empty.
pub fn facts(root: &Root) -> Facts {
    let line = |name: &str| {
        let bytes = read_feature(&root.proc.join(name)).known().unwrap_or_default();
        parse::lines(&bytes).next().map(parse::text).unwrap_or_default()
    };
    let cpus = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
    Facts {
        kernel: line("sys/kernel/osrelease"),
        cpus: cpus.ok().flatten().and_then(|count| u32::try_from(count).ok()).unwrap_or(1),
        page_bytes: page_bytes(),
        boot_id: line("sys/kernel/random/boot_id"),
        name: line("sys/kernel/hostname"),
    }
}
