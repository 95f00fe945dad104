//! Foreign files as text in a test, and what is read of them.

#![allow(dead_code, missing_docs, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]

use lowtide_model::Curve;
use lowtide_store::import::{Hints, parse};
use std::path::Path;

pub(crate) fn of_text(text: &str) -> Vec<Curve> {
    parse(Path::new("x.txt"), text.as_bytes(), &Hints::default()).unwrap()
}

pub(crate) fn only(text: &str) -> Curve {
    let mut found = of_text(text);
    assert_eq!(found.len(), 1, "{:?}", found.iter().map(|curve| &curve.name).collect::<Vec<_>>());
    found.remove(0)
}

pub(crate) fn refused(text: &str) -> String {
    parse(Path::new("x.txt"), text.as_bytes(), &Hints::default()).unwrap_err().to_string()
}

pub(crate) fn notes(curve: &Curve) -> String {
    curve.notes.join("\n")
}
