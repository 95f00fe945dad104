//! Which crate may use which. An arrow that is not in this table is a mistake of design, not of style.

use crate::commands::{cargo, output};
use serde_json::Value;

/// From a crate to those of ours it may use.
const ARROWS: [(&str, &[&str]); 10] = [
    ("lowtide-model", &[]),
    ("lowtide-wire", &["lowtide-model"]),
    ("lowtide-verdict", &["lowtide-model"]),
    ("lowtide-probe", &["lowtide-model"]),
    ("lowtide-scan", &["lowtide-model"]),
    ("lowtide-store", &["lowtide-model"]),
    (
        "lowtide-run",
        &[
            "lowtide-model",
            "lowtide-wire",
            "lowtide-probe",
            "lowtide-scan",
            "lowtide-store",
            "lowtide-verdict",
        ],
    ),
    ("lowtide-serve", &["lowtide-model", "lowtide-wire", "lowtide-store", "lowtide-verdict"]),
    (
        "lowtide",
        &[
            "lowtide-model",
            "lowtide-wire",
            "lowtide-probe",
            "lowtide-scan",
            "lowtide-store",
            "lowtide-verdict",
            "lowtide-run",
            "lowtide-serve",
        ],
    ),
    ("xtask", &["lowtide-model", "lowtide-verdict", "lowtide-store"]),
];

/// Fails on an arrow or a crate that the table does not know.
pub(crate) fn arrows() -> Result<(), String> {
    let text = output(cargo().args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("{name} is not in the table of xtask/src/arrows.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let ours = ARROWS.iter().any(|(known, _)| *known == used);
            let for_tests = dependency["kind"].as_str() == Some("dev");
            if ours && !for_tests && !allowed.contains(&used) {
                wrong.push(format!("{name} must not use {used}"));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
