//! Judges memory curves and recordings: leak, cache fill, warm-up, spikes, or too early to say; and whether it fits.
//!
//! Pure: no clock, no file, no environment, no thread, no random order. The same rows give the same words.
//! Not here: reading anything (see `probe` and `store`), showing anything (see `lowtide`).

mod roles;
mod total;

pub use roles::{Footprint, RoleFound, roles};
pub use total::{Estimate, TreeTotal, tree_totals};
