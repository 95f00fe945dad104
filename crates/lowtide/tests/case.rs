//! The pages about the case and about the verdict show real commands with their real output: they are run again here.
//!
//! Numbers may move as the engine learns; words and rows may not without the pages being printed anew:
//! `LOWTIDE_UPDATE_DOCS=1 cargo test -p lowtide --test case`.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should stop")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// What a shell in a folder of the documentation prints.
fn printed(folder: &str, command: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_lowtide"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", command])
        .current_dir(docs().join(folder))
        .env("PATH", path)
        .output();
    let output = output.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
    String::from_utf8(output.stdout).unwrap()
}

/// The page with every block of output printed anew.
fn printed_anew(page: &str, folder: &str) -> (String, usize) {
    let (mut out, mut commands, mut inside) = (String::new(), 0, false);
    for line in page.lines() {
        if line == "```console" || (inside && line == "```") {
            inside = line == "```console";
        } else if inside && !line.starts_with("$ ") {
            continue;
        }
        writeln!(out, "{line}").unwrap();
        if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            commands += 1;
            out.push_str(&printed(folder, command));
        }
    }
    (out, commands)
}

fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        let letter = if letter.is_ascii_digit() { '#' } else { letter };
        if letter != '#' || !out.ends_with('#') {
            out.push(letter);
        }
    }
    out.replace("#.#", "#").replace("#,#", "#")
}

/// A picture moves with every number; that it is there is enough.
fn is_drawn(line: &str) -> bool {
    let dots = line.chars().any(|letter| ('\u{2800}'..'\u{2900}').contains(&letter));
    let signs = line.trim_end().ends_with(['|', ':', '+', '*', '=', '_']);
    dots || (line.starts_with("  ") && signs) || line.contains("settled since")
}

/// Holds a page against what its commands print in a folder.
fn holds(name: &str, folder: &str, fewest: usize) {
    let file = docs().join(name);
    let page = std::fs::read_to_string(&file).unwrap();
    let (anew, commands) = printed_anew(&page, folder);
    assert!(commands >= fewest, "only {commands} commands on the page");
    if std::env::var_os("LOWTIDE_UPDATE_DOCS").is_some() {
        std::fs::write(&file, anew).unwrap();
        return;
    }
    let lines = |text: &str| -> Vec<String> {
        without_numbers(text).lines().filter(|line| !is_drawn(line)).map(str::to_owned).collect()
    };
    for (shown, printed) in lines(&page).iter().zip(&lines(&anew)) {
        assert_eq!(shown, printed, "docs/{name} is out of date: LOWTIDE_UPDATE_DOCS=1 prints it anew");
    }
    assert_eq!(lines(&page).len(), lines(&anew).len());
    assert!(page.contains('\u{2809}'), "the picture is on the page");
}

#[test]
fn the_page_about_the_case_shows_what_the_commands_print() {
    holds("case.md", "case", 10);
}

#[test]
fn the_pictures_of_the_verdict_are_what_lowtide_draws() {
    holds("verdict.md", ".", 3);
}

#[test]
fn the_page_says_what_the_case_requires() {
    let page = std::fs::read_to_string(docs().join("case.md")).unwrap();
    for words in ["decided at step 83", "the numbers don't match", "exit code 0", "exit code 3", "it fits"] {
        assert!(page.contains(words), "{words}");
    }
}
