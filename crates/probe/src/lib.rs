//! All reading of live systems: processes, the tree they form, cgroups, the machine, GPUs.
//!
//! Why one crate: what a kernel file means, how it lies and what it costs to read is known here and nowhere else.
//! Every reader takes a [`Root`], so tests give it a made-up tree, and answers with a `Reading`, so "denied",
//! "gone" and "not on this system" never become a zero.
//! Not here: any opinion. Roles, verdicts and warnings are made from these facts elsewhere.

pub mod abilities;
pub mod cgroup;
pub mod clock;
mod ending;
pub mod events;
pub mod fake;
pub mod gpu;
pub mod host;
mod identity;
pub mod jobs;
pub mod limits;
pub mod memory;
mod open_file;
mod pagemap;
pub mod parse;
mod process;
mod program;
mod root;
pub mod tree;

pub use ending::Ending;
pub use identity::{ENV_ALLOWED, ENV_ALLOWED_PREFIXES, Identity, variable};
pub use pagemap::ExclusivePages;
pub use parse::{Stat, Statm, Status};
pub use process::{ProcessReader, stat_of};
pub use program::{Program, mapped, program, sees};
pub use root::Root;
