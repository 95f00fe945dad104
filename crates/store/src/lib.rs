//! The recording: one `SQLite` file a run (`.tide`), written while the job runs, read live or for ever after.
//!
//! It holds raw facts; every answer is computed on replay. Also here: listing and exporting recordings, and reading the curves of others. Not here: any
//! reading of live systems, any judgement. docs/FORMAT.md tells the tables.

mod error;
pub mod export;
mod files;
pub mod import;
mod list;
mod mask;
mod paths;
mod reader;
mod schema;
mod words;
mod writer;

pub use error::StoreError;
pub use list::{Listed, Summary, list};
pub use mask::mask_argv;
pub use paths::{run_path, runs_dir};
pub use reader::{Cursor, Reader, open, own_key};
pub use writer::{Entry, Health, Kind, Options, Writer};
