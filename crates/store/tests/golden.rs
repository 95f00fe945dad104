//! Recordings of every version ever released are read for ever.
//!
//! `cargo test -p lowtide-store --test golden -- --ignored` writes the file of the current version; it is done once a version.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]

mod made;

use lowtide_model::{Meta, ProcKey, RunState};
use lowtide_store::{Writer, open};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Whether `whole` says all that `part` says; it may say more.
fn holds(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|found| holds(found, value)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(found, value)| holds(found, value))
        }
        (whole, part) => whole == part,
    }
}

#[test]
fn version_1_reads_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v1.tide");
    std::fs::copy(golden("v1.tide"), &path).unwrap();
    let mut reader = open(&path).unwrap();
    assert_eq!(reader.state(), RunState::Finished);
    let read = serde_json::to_value(reader.recording().unwrap()).unwrap();
    let wanted: Value = serde_json::from_slice(&std::fs::read(golden("v1.json")).unwrap()).unwrap();
    assert!(holds(&read, &wanted), "read {read:#}\nwanted {wanted:#}");
    assert_eq!(wanted["samples"].as_array().map(Vec::len), Some(3));
}

#[test]
#[ignore = "writes the golden file of the current version"]
fn write_the_golden_file() {
    let fixed = |meta: Meta| Meta {
        boot_id: "00000000-0000-0000-0000-000000000000".into(),
        recorder: Some(ProcKey { pid: 9, start_ticks: 9 }),
        ..meta
    };
    let mut recording = made::everything();
    recording.meta = fixed(recording.meta);
    let path = golden("v1.tide");
    let _ = std::fs::remove_file(&path);
    let writer = Writer::create(&path, fixed(made::meta())).unwrap();
    made::push_all(&writer, &recording);
    writer.finish(recording.meta.clone()).unwrap();
    std::fs::write(golden("v1.json"), serde_json::to_string_pretty(&recording).unwrap()).unwrap();
}
