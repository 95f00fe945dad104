//! `lowtide report` as people run it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod recorded;

use std::path::Path;
use std::process::{Command, Output};

fn lowtide(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lowtide")).args(arguments).current_dir(folder).output().unwrap()
}

fn case(name: &str) -> String {
    format!("{}/../../docs/case/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_report_is_named_after_its_file_and_holds_the_same_sentence_as_explain() {
    let folder = tempfile::tempdir().unwrap();
    let curve = case("run-1.txt");
    let about = ["--examples", "663", "--batch", "2", "--accum", "4", "--limit", "32GB"];
    let told = lowtide(folder.path(), &[&["report", &curve], &about[..]].concat());
    assert!(told.status.success(), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stdout).starts_with("run-1.html"));
    let page = std::fs::read_to_string(folder.path().join("run-1.html")).unwrap();
    let explained = lowtide(folder.path(), &[&["explain", &curve], &about[..]].concat());
    let sentence = String::from_utf8_lossy(&explained.stdout).lines().next().unwrap().to_owned();
    assert!(page.contains(&sentence), "{sentence}");
}

#[test]
fn the_figure_and_the_bug_report_go_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.tide");
    recorded::Job { trainer: recorded::leak, ..recorded::Job::default() }.write(&file);
    let svg = lowtide(folder.path(), &["report", "r.tide", "--svg"]);
    assert!(String::from_utf8_lossy(&svg.stdout).starts_with("<svg"), "{svg:?}");
    let text = lowtide(folder.path(), &["report", "r.tide", "--to", "markdown"]);
    assert!(String::from_utf8_lossy(&text.stdout).starts_with("## Memory: leak"), "{text:?}");
    let html = lowtide(folder.path(), &["report", "r.tide", "-o", "-"]);
    assert!(String::from_utf8_lossy(&html.stdout).starts_with("<!DOCTYPE html>"), "{html:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no file was made");
}

#[test]
fn what_is_no_run_is_an_error_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.txt"), "nothing to see").unwrap();
    for file in ["x.txt", ".", "missing.tide"] {
        let told = lowtide(folder.path(), &["report", file]);
        assert_eq!(told.status.code(), Some(2), "{file}: {told:?}");
        assert!(String::from_utf8_lossy(&told.stderr).starts_with("error: "), "{told:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
