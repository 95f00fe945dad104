//! A scan from begin to end.

use crate::memory::{Facts, Memory, Settings};
use crate::report::{Python, SCHEMA, Scan};

/// Scans a process.
pub fn scan(memory: &dyn Memory, facts: &Facts, settings: &Settings) -> Scan {
    let _ = (memory, settings);
    let python = facts.python.as_ref().map(|python| Python {
        version: format!("{}.{}", python.version.0, python.version.1),
        found: python.found.clone(),
    });
    Scan {
        schema: SCHEMA.to_owned(),
        rss_bytes: facts.rss_bytes(),
        swap_bytes: facts.swap_bytes,
        python,
        ..Scan::default()
    }
}
