//! What a scan reads: the mappings of a process and its resident pages, live or from a saved dump.

use lowtide_model::Bytes;

/// One mapping of the target, as `/proc/PID/maps` tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "the four letters of /proc/PID/maps, each independent of the others"
)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// `r`
    pub readable: bool,
    /// `w`
    pub writable: bool,
    /// `x`
    pub executable: bool,
    /// `s` instead of `p`
    pub shared: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's inode, 0 without one.
    pub inode: u64,
    /// `[heap]`, `[stack]`, a path, or nothing.
    pub name: String,
}

/// A process's memory: live, or a saved dump.
///
/// Whoever implements it answers for what a scan must never do: touch a page that is not present.
pub trait Memory {
    /// All mappings, ascending, never overlapping.
    fn mappings(&self) -> &[Mapping];

    /// The resident runs of pages inside `[start, end)`, ascending: private or shared, never swapped out, never
    /// the zero page, never a device's.
    fn present(&self, start: u64, end: u64) -> Vec<(u64, u64)>;

    /// Bytes inside `[start, end)` that are resident, a device's too.
    fn resident(&self, start: u64, end: u64) -> u64 {
        self.present(start, end).iter().map(|(start, end)| end - start).sum()
    }

    /// Where the mapping that `address` lies in ends now: it may have grown since the mappings were listed.
    fn end_now(&self, address: u64) -> Option<u64> {
        let mut mappings = self.mappings().iter();
        mappings.find(|map| (map.start..map.end).contains(&address)).map(|map| map.end)
    }

    /// Fills `into` from `address` on and gives how many bytes were read: fewer at a hole, 0 where nothing is.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;

    /// Fills `into` with what the file behind a mapping that nobody may write to has for `address`, and gives how many bytes. The
    /// file is read, never the process: its page need not be resident.
    fn in_file(&self, address: u64, into: &mut [u8]) -> usize {
        let _ = (address, into);
        0
    }

    /// From now on what was mapped since the beginning may be read as well, if `address` is of that.
    fn renew(&self, address: u64) {
        let _ = address;
    }

    /// Fills the pieces of `length` bytes of `into` from the addresses, one each, and gives how many were read whole: it ends
    /// at the first that could not be.
    fn read_each(&self, addresses: &[u64], length: usize, into: &mut [u8]) -> usize {
        let mut pieces = addresses.iter().zip(into.chunks_exact_mut(length.max(1)));
        let all = pieces.len();
        pieces.position(|(address, piece)| self.read(*address, piece) < length).unwrap_or(all)
    }
}

/// Where a scan must look for Python; the live side reads it from the ELF files of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonFacts {
    /// Major and minor version.
    pub version: (u8, u8),
    /// How the version and the symbols were found, for the reader of the report.
    pub found: String,
    /// Address in the target of each symbol of [`SYMBOLS`] that the ELF file has.
    pub symbols: Vec<(String, u64)>,
    /// Built without the GIL: objects live in mimalloc heaps that a scan does not know.
    pub free_threaded: bool,
}

/// The symbols of libpython (or of a static executable) a scan can use. Only the first one matters for counting;
/// the rest help to name frames and modules.
pub const SYMBOLS: [&str; 8] = [
    "PyType_Type",
    "PyCode_Type",
    "PyFunction_Type",
    "PyFrame_Type",
    "PyModule_Type",
    "_PyWeakref_RefType",
    "PySet_Type",
    "PyFrozenSet_Type",
];

/// What is known about the target besides its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes in a page.
    pub page_bytes: u64,
    /// `RssAnon` of `/proc/PID/status`.
    pub rss_anon_bytes: Bytes,
    /// `RssFile`.
    pub rss_file_bytes: Bytes,
    /// `RssShmem`.
    pub rss_shmem_bytes: Bytes,
    /// `VmSwap`: never read by a scan.
    pub swap_bytes: Bytes,
    /// Python in the target, where its ELF files could be read.
    pub python: Option<PythonFacts>,
    /// `PYTHONMALLOC` of the target's environment, where it could be read and is set.
    pub python_malloc: Option<String>,
    /// Stack pointers of the target's threads, where they could be read.
    pub stack_pointers: Vec<u64>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            page_bytes: 4096,
            rss_anon_bytes: Bytes::ZERO,
            rss_file_bytes: Bytes::ZERO,
            rss_shmem_bytes: Bytes::ZERO,
            swap_bytes: Bytes::ZERO,
            python: None,
            python_malloc: None,
            stack_pointers: Vec::new(),
        }
    }
}

impl Facts {
    /// All of RSS.
    pub fn rss_bytes(&self) -> Bytes {
        self.rss_anon_bytes.saturating_add(self.rss_file_bytes).saturating_add(self.rss_shmem_bytes)
    }

    /// Address of a symbol of [`SYMBOLS`].
    pub fn symbol(&self, name: &str) -> Option<u64> {
        let python = self.python.as_ref()?;
        python.symbols.iter().find(|(known, _)| known == name).map(|(_, address)| *address)
    }
}

/// How much a scan may spend, and where it climbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Own memory a scan may use for its index; what does not fit is left out and reported as coverage.
    pub most_own_bytes: Bytes,
    /// Types whose holders are looked for.
    pub climbs: usize,
    /// Whether containers that people suspect are looked for.
    pub suspects: bool,
    /// Types of an earlier scan: the climbs start from those that grew most. Without, from those that hold most.
    pub before: Option<Vec<crate::TypeUse>>,
    /// Instances of a type a climb starts from.
    pub samples: usize,
    /// Blocks of a long way up that are looked at, half of them at each end.
    pub levels: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            most_own_bytes: Bytes::from_mib(2048),
            climbs: 3,
            suspects: true,
            before: None,
            samples: 64,
            levels: 40,
        }
    }
}
