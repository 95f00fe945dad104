//! Sizes on a line that are no level of memory: rates, changes, and what files and transfers have.

use super::super::numbers::Found;

/// What a size is divided by that comes again and again.
const PER: &[&str] = &[
    "s", "sec", "second", "seconds", "min", "minute", "h", "hour", "step", "it", "iter", "epoch", "batch",
    "sample",
];

/// Words right before a size that is how much something changed.
const CHANGES: &[&str] = &["delta", "diff", "change", "growth", "increase"];

/// Words before a size that is of something else than memory.
const OTHERS: &[&str] = &[
    "download",
    "downloaded",
    "downloading",
    "uploaded",
    "uploading",
    "throughput",
    "bandwidth",
    "speed",
    "disk",
];

/// What is done to files, and what they are; together they say the same.
const SAVES: &[&str] = &["saved", "saving", "wrote", "writing", "written"];
const FILES: &[&str] =
    &["checkpoint", "ckpt", "model", "weights", "optimizer", "state", "file", "shard", "dataset", "to"];

/// The same, where they stand right before it.
const RIGHT_BEFORE: &[&str] = &["checkpoint", "ckpt", "file", "size"];

/// Words that say that it is memory after all, or only when it was looked at: `after saving: 5,552 MB`.
const MEMORY: &[&str] = &[
    "mem", "memory", "ram", "vram", "rss", "resident", "heap", "gpu", "cuda", "after", "before", "during",
    "since", "at",
];

/// `300 MB/s`, `15 MB per step`.
pub(super) fn is_rate(item: &Found<'_>) -> bool {
    let rest = item.rest.trim_start();
    let rest = if item.unit.is_some() { rest.strip_prefix(item.after).unwrap_or(rest) } else { rest };
    let per = rest.strip_prefix('/').or_else(|| rest.trim_start().strip_prefix("per "));
    let word = per.and_then(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next());
    word.is_some_and(|word| PER.contains(&word.to_ascii_lowercase().as_str()))
}

/// `mem_delta=15MB`.
pub(super) fn is_change(line: &str, item: &Found<'_>) -> bool {
    right_before(line, item).is_some_and(|word| CHANGES.contains(&word.as_str()))
}

/// Whether a size without a name of memory is that of a file or of a transfer, by what stands before it.
pub(super) fn is_of_others(line: &str, item: &Found<'_>) -> bool {
    // The bar of a download: `1.2G/2.6G [00:12<00:13, 98MB/s]`.
    if line.contains("B/s]") {
        return true;
    }
    let clause = line[..item.at].rsplit(['|', ';']).next().unwrap_or("");
    let before: Vec<String> = words(clause).map(str::to_ascii_lowercase).collect();
    let says = |known: &[&str]| before.iter().any(|word| known.contains(&word.as_str()));
    let is_other = |word: &&str| RIGHT_BEFORE.contains(word) || SAVES.contains(word);
    let right_before = right_before(line, item).as_deref().is_some_and(|word| is_other(&word));
    // `Saved to x.pt at step 5 (1.3 GB)` tells of a file all the same.
    let other = says(OTHERS) || says(SAVES) && says(FILES);
    let memory = MEMORY.iter().any(|word| says(&[word]) && !(other && *word == "at"));
    (other || right_before) && !memory
}

/// The word that a size belongs to, with nothing but `: = ( ~` between.
fn right_before(line: &str, item: &Found<'_>) -> Option<String> {
    let left = line[..item.at].trim_end_matches([' ', ':', '=', '(', '~', '"', '\'']);
    let last = left.rsplit(|c: char| !c.is_ascii_alphabetic()).next()?;
    Some(last.to_ascii_lowercase()).filter(|word| !word.is_empty())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty())
}
