//! What a scan found, as it is stored and shown (schema `lowtide.scan/1`).
//!
//! Types, sizes and names only: no value of the user's data is ever in here.

use crate::seen::Seen;
use lowtide_model::{ByteDelta, Bytes};
use serde::{Deserialize, Serialize};

/// The schema a [`Scan`] is written with.
pub const SCHEMA: &str = "lowtide.scan/1";

/// What one process holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    /// [`SCHEMA`].
    pub schema: String,
    /// Resident memory when the scan began.
    pub rss_bytes: Bytes,
    /// Swapped out then: never read, so nothing below knows it.
    pub swap_bytes: Bytes,
    /// The Python found, if one.
    pub python: Option<Python>,
    /// Who hands out memory, and what of it is not understood.
    pub allocators: Vec<Allocator>,
    /// Where RSS is. The parts add up to it, [`Kind::Unexplained`] among them.
    pub kinds: Vec<KindUse>,
    /// Python types by what they hold, most first.
    pub types: Vec<TypeUse>,
    /// Tensors by device, dtype and shape. Empty unless the agent told: memory alone does not say.
    #[serde(default)]
    pub tensors: Vec<TensorUse>,
    /// Memory of the C allocator.
    pub native: Native,
    /// Mappings by name, most resident first.
    pub mappings: Vec<MappingUse>,
    /// What was seen of what there was.
    pub coverage: Vec<Coverage>,
    /// Containers people suspect first, however small.
    pub suspects: Vec<Suspect>,
    /// Who holds the types that hold or grow most.
    pub holders: Vec<Holders>,
    /// What the scan cost.
    pub cost: Cost,
}

/// The interpreter in the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Python {
    /// `3.11`
    pub version: String,
    /// How it was found.
    pub found: String,
}

/// Who hands out memory in the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocator {
    /// `pymalloc`, `glibc`, `jemalloc`, ...
    pub name: String,
    /// Whether a scan sees single blocks of it.
    pub understood: bool,
    /// Why not, or what is in doubt.
    pub note: String,
}

/// A part of RSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Python objects themselves.
    PythonObjects,
    /// Native memory that Python objects own: array data, pixels, dict tables.
    OwnedNative,
    /// Live native memory no object owns.
    UnownedNative,
    /// Live blocks of Python's allocator that are no object and belong to none.
    PythonRaw,
    /// Freed, kept by the C allocator: free chunks, the top of each heap, thread caches.
    KeptNative,
    /// Freed, kept by Python's allocator.
    KeptPython,
    /// Thread stacks.
    Stacks,
    /// Private anonymous memory of no allocator we know.
    OtherAnonymous,
    /// Private pages of files: written data of libraries.
    FilePrivate,
    /// Pages of files as they are on disk: code, mapped data sets.
    File,
    /// Shared memory.
    Shared,
    /// Mappings of devices, such as a GPU driver's.
    Device,
    /// In RSS and in no part above, because it changed meanwhile or could not be seen.
    Unexplained,
}

/// How much of RSS a part is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindUse {
    /// Which part.
    pub kind: Kind,
    /// Resident bytes.
    pub bytes: Bytes,
    /// Of RSS, 0 to 1.
    pub share: f64,
}

/// What the objects of one type hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeUse {
    /// The class's name.
    pub name: String,
    /// Its module, empty where it is not told.
    pub module: String,
    /// Living objects.
    pub count: u64,
    /// Classes of this module and name that they are of: more than one where a class is made again and again. 0 in scans of earlier
    /// versions, which did not count them.
    #[serde(default)]
    pub classes: u64,
    /// Bytes of the objects themselves, with their headers.
    pub own_bytes: Bytes,
    /// Resident bytes of native memory that they own.
    pub owned_bytes: Bytes,
    /// Bytes they own that are allocated but not resident: never written, or swapped out.
    pub absent_bytes: Bytes,
    /// Where some of them are, for a later scan to know which are new.
    #[serde(default, skip_serializing_if = "Seen::is_empty")]
    pub seen: Seen,
}

impl TypeUse {
    /// Own and owned together.
    pub fn bytes(&self) -> Bytes {
        self.own_bytes.saturating_add(self.owned_bytes)
    }
}

/// Tensors that look the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorUse {
    /// `cpu`, `cuda:0`
    pub device: String,
    /// `float32`
    pub dtype: String,
    /// Each dimension.
    pub shape: Vec<u64>,
    /// How many.
    pub count: u64,
    /// Bytes of their storages.
    pub bytes: Bytes,
}

/// Memory of the C allocator, allocated sizes (what mallinfo2 would say).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Native {
    /// In use, the thread caches not among it.
    pub live_bytes: Bytes,
    /// In use and owned by no Python object.
    pub unowned_bytes: Bytes,
    /// In use through mappings of their own.
    pub mapped_bytes: Bytes,
    /// Freed and kept.
    pub kept_bytes: Bytes,
    /// The same by arena.
    pub arenas: Vec<Arena>,
    /// Sizes of live chunks no object owns, those with most bytes first.
    pub unowned_sizes: Vec<SizeUse>,
}

/// One arena of the C allocator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// `main`, or `thread N`.
    pub name: String,
    /// In use.
    pub live_bytes: Bytes,
    /// Free chunks between those in use.
    pub free_bytes: Bytes,
    /// Free at the top, which trimming could give back.
    pub top_bytes: Bytes,
    /// Freed chunks that threads keep for themselves.
    pub cached_bytes: Bytes,
    /// Resident bytes of all of it.
    pub resident_bytes: Bytes,
    /// Whether the walk reached the end.
    pub complete: bool,
}

/// Live chunks of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeUse {
    /// Bytes of one chunk.
    pub size_bytes: Bytes,
    /// How many.
    pub count: u64,
    /// All together.
    pub bytes: Bytes,
}

/// Mappings of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingUse {
    /// A path, `[heap]`, or what it is.
    pub name: String,
    /// Which part of RSS it counts to.
    pub kind: Kind,
    /// How many mappings.
    pub count: u64,
    /// Address space.
    pub size_bytes: Bytes,
    /// Resident.
    pub resident_bytes: Bytes,
}

/// How much of a thing was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// `pools`, `main heap`, `ownership`, ...
    pub what: String,
    /// Bytes understood.
    pub seen_bytes: Bytes,
    /// Of so many.
    pub of_bytes: Bytes,
    /// Places that changed under the eye and were read again.
    pub retries: u64,
    /// What stays in doubt, in words; empty when nothing does.
    pub doubt: String,
}

/// A container known by the name it is held under.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// What people call it: `trainer log history`.
    pub label: String,
    /// The name in the target: `log_history`.
    pub attribute: String,
    /// Who has an attribute of that name, where it can be told.
    pub holder: String,
    /// Type of the container.
    pub container: String,
    /// Entries; 0 where it does not tell.
    pub count: u64,
    /// Resident bytes of it, and of all it leads to that nothing else holds.
    pub bytes: Bytes,
    /// Bytes of the same that are allocated but not resident: never written, or swapped out.
    #[serde(default)]
    pub absent_bytes: Bytes,
    /// Whether it leads to more: others hold that as well, or it holds itself.
    pub at_least: bool,
    /// Whether not all of it was counted: there is too much of it, or some came meanwhile.
    #[serde(default)]
    pub cut: bool,
}

/// Who holds the objects of a type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Holders {
    /// The type climbed from.
    pub name: String,
    /// Its module.
    pub module: String,
    /// Instances there are.
    pub count: u64,
    /// What they hold together.
    pub bytes: Bytes,
    /// Whether only such instances were climbed from that were not there in the scan before.
    #[serde(default)]
    pub new: bool,
    /// Instances climbed from.
    pub samples: u64,
    /// From the objects up; the last one is the name a person knows.
    pub path: Vec<HolderStep>,
    /// The path as one line: `ImagingCore <- Image.im <- dict['image'] <- list of 663 <- global ROWS of module data`.
    pub text: String,
    /// Sampled instances that are held in this way, all of it.
    #[serde(default)]
    pub agree: u64,
    /// Share of their bytes, 0 to 1: a large instance counts for more than a small one.
    pub share: f64,
    /// The next way by which many of the others are held, and their share; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub also: String,
    /// Why there is no single holder; empty when there is one.
    pub doubt: String,
}

/// One step of a path to a holder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderStep {
    /// Type of the holder, empty for native memory.
    pub name: String,
    /// Module of that type.
    pub module: String,
    /// Through what: an attribute, a dict key, a global, a local; empty where it has no name.
    pub through: String,
    /// Different holders of this kind at this step.
    pub count: u64,
    /// Entries of the holder where there is one and it is a list or a dict.
    pub entries: Option<u64>,
}

/// What a scan cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time; the live side fills it in.
    pub cpu_ms: u64,
    /// Bytes read from the target.
    pub read_bytes: Bytes,
    /// Single reads.
    pub reads: u64,
    /// Own memory at its largest; the live side counts the program too.
    pub own_bytes: Bytes,
}

/// What changed from one scan to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// RSS.
    pub rss_bytes: ByteDelta,
    /// By part.
    pub kinds: Vec<KindGrowth>,
    /// By type, those that grew most first, those that shrank most last; unchanged ones left out.
    pub types: Vec<TypeGrowth>,
    /// By suspect.
    pub suspects: Vec<SuspectGrowth>,
    /// Who holds what grew: of those in the newer scan, with what is doubtful about them because of the older one.
    #[serde(default)]
    pub holders: Vec<Holders>,
    /// What makes the difference doubtful.
    pub doubt: Vec<String>,
}

/// How a part of RSS changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindGrowth {
    /// Which part.
    pub kind: Kind,
    /// By how much.
    pub bytes: ByteDelta,
}

/// How a type changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeGrowth {
    /// The class's name.
    pub name: String,
    /// Its module.
    pub module: String,
    /// More or fewer objects.
    pub count: i64,
    /// More or fewer classes of this module and name; 0 where not both scans counted them.
    #[serde(default)]
    pub classes: i64,
    /// Own bytes.
    pub own_bytes: ByteDelta,
    /// Owned resident bytes.
    pub owned_bytes: ByteDelta,
}

impl TypeGrowth {
    /// Own and owned together.
    pub fn bytes(&self) -> i64 {
        self.own_bytes.0.saturating_add(self.owned_bytes.0)
    }
}

/// How a suspect changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspectGrowth {
    /// What people call it.
    pub label: String,
    /// The name in the target.
    pub attribute: String,
    /// Who has it.
    pub holder: String,
    /// Entries.
    pub count: i64,
    /// Bytes.
    pub bytes: ByteDelta,
}
