//! What a process holds, from its pages alone: Python objects by type, the native memory they own, who holds them,
//! and what the allocators keep though nobody uses it.
//!
//! Pure: it sees memory only through [`Memory`], a live process (the live side implements it) or a saved [`Dump`].
//! It trusts nothing it reads: every walk is bounded by what is resident, and what does not agree with itself is
//! reported as [`Coverage`], never guessed. Not here: opening a process, ELF files, how a report looks.

mod above;
mod agree;
mod attributes;
mod beside;
mod cache;
mod chain;
mod claims;
mod climb;
mod contents;
mod diff;
mod directory;
mod dump;
mod edges;
mod frames;
mod frontier;
mod gradients;
mod heap;
mod index;
mod layout;
mod links;
mod mapped;
mod mappings;
mod memory;
mod moved;
mod names;
mod natives;
mod newer;
mod own;
mod path;
mod pool;
mod presample;
mod ranked;
mod reach;
mod reader;
mod report;
mod scan;
mod seen;
mod stacks;
mod suspects;
mod tags;
mod totals;
mod tree;
mod types;
mod ways;

pub use diff::diff;
pub use dump::{Dump, DumpError};
pub use memory::{Facts, Mapping, Memory, PythonFacts, SYMBOLS, Settings};
pub use report::{
    Allocator, Arena, Cost, Coverage, Difference, HolderStep, Holders, Kind, KindGrowth, KindUse, MappingUse,
    Native, Python, SCHEMA, Scan, SizeUse, Suspect, SuspectGrowth, TensorUse, TypeGrowth, TypeUse,
};
pub use scan::scan;
pub use seen::Seen;
