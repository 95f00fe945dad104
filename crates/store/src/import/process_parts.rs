//! The parts of a process's resident memory as /proc/PID/status tells them: anonymous memory, pages of files, which the
//! kernel takes back, and shared memory, which it does not.
//!
//! File pages are never a curve of their own: they grow as files are read, and nobody has to fix that.

use super::cgroup_files::{self, CgroupFile};
use super::memory_names::says_gpu;
use super::{Missing, numbers, time_units};
use lowtide_model::Curve;
use std::collections::BTreeMap;

const PARTS: &[(&str, &str)] =
    &[("rssanon", "anon"), ("rssfile", "file"), ("rssshmem", "shmem"), ("vmswap", "swap")];

/// The sizes of each part, in bytes.
pub(crate) type Parts = BTreeMap<&'static str, Vec<f64>>;

/// The part of a process that a name is of: `RssFile`, `rss_file_kb`; or of a cgroup: `memory.stat.file`.
pub(crate) fn part(name: &str) -> Option<&'static str> {
    if let Some(file) = cgroup_files::file(name) {
        return match file {
            CgroupFile::Anon => Some("anon"),
            CgroupFile::File => Some("file"),
            CgroupFile::Cache => Some("cache"),
            CgroupFile::Shmem => Some("shmem"),
            CgroupFile::Swap => Some("swap"),
            CgroupFile::Charge | CgroupFile::Limit | CgroupFile::Peak | CgroupFile::Other => None,
        };
    }
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    PARTS.iter().find(|(start, _)| plain.contains(start)).map(|(_, part)| *part)
}

/// What the names of a table's columns say of parts.
pub(crate) struct Columns {
    parts: Vec<Option<&'static str>>,
    caches: Vec<bool>,
    /// One of them names containers.
    of_containers: bool,
}

impl Columns {
    pub(crate) fn of(names: &[String]) -> Self {
        Self {
            parts: names.iter().map(|name| part(name)).collect(),
            caches: names.iter().map(|name| is_cache(name)).collect(),
            of_containers: names.iter().any(|name| is_container(name)),
        }
    }

    /// The parts that stand beside what the column `of` tells, with their columns. Beside what a container has in use that is
    /// its page cache, too. A program's own cache is called so as well, and is its need: names have to say that it is about
    /// a container.
    pub(crate) fn beside(&self, of: usize, names: &[String]) -> Vec<(usize, &'static str)> {
        let usage = is_usage(&names[of]);
        let in_bytes_too = self.of_containers && is_usage_in_bytes(&names[of]);
        let cache = |column: usize| {
            let its = || usage || in_bytes_too && in_bytes(&names[column]);
            (self.caches[column] && its()).then_some("cache")
        };
        let part = |column: usize| Some((column, self.parts[column].or_else(|| cache(column))?));
        (0..names.len()).filter(|column| *column != of).filter_map(part).collect()
    }
}

/// Words of what the kernel charges page cache to.
const CONTAINERS: &[&str] = &["container", "cgroup", "pod"];

/// Whether a name is of what a container has in use, with its page cache: `container_memory_usage_bytes`.
fn is_usage(name: &str) -> bool {
    let words = time_units::words(name);
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    cgroup_files::is_charge(name) || has(&["usage"]) && has(CONTAINERS) && !is_of_one(name)
}

/// The same, where only another column says that it is a container: `memory_usage_bytes` beside `pod`.
fn is_usage_in_bytes(name: &str) -> bool {
    let words = time_units::words(name);
    let has = |known: &str| words.iter().any(|word| word == known);
    has("memory") && has("usage") && in_bytes(name) && !is_of_one(name)
}

/// Whether a name is of a process or a card: neither holds page cache.
fn is_of_one(name: &str) -> bool {
    says_gpu(name) || name.to_ascii_lowercase().contains("rss")
}

fn in_bytes(name: &str) -> bool {
    numbers::unit_of_name(name) == Some(numbers::BYTES)
}

/// Whether a column names a container: `pod`, `container_name`.
fn is_container(name: &str) -> bool {
    let words = time_units::words(name);
    let plain = |word: &str| CONTAINERS.contains(&word) || ["name", "id"].contains(&word);
    words.iter().any(|word| CONTAINERS.contains(&word.as_str())) && words.iter().all(|word| plain(word))
}

/// Whether a name says page cache and nothing else.
fn is_cache(name: &str) -> bool {
    let words = time_units::words(name);
    let cache = words.iter().any(|word| ["cache", "cached"].contains(&word.as_str()));
    let around = |word: &str| {
        ["cache", "cached", "page", "container", "cgroup", "memory", "mem", "total"].contains(&word)
    };
    cache && words.iter().all(|word| around(word) || numbers::unit(word).is_some())
}

/// The part of which a column beside the curve is, whatever it is of.
pub(crate) fn part_beside(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let is = |part: &&str| lower.starts_with(*part) || lower.contains(&format!("_{part}"));
    ["anon", "file", "shmem", "swap", "pss", "uss"].into_iter().find(is)
}

/// Whether a name is of pages of files alone.
pub(crate) fn is_file(name: &str) -> bool {
    matches!(part(name), Some("file" | "cache"))
}

/// Whether a name is one of those that stand on lines of their own in /proc/PID/status.
pub(crate) fn is_of_status(name: &str) -> bool {
    part(name).is_some() || name.starts_with("vm")
}

/// Why file pages alone give no curve.
pub(crate) fn only_file(name: &str) -> Missing {
    Missing::Wanted(format!(
        "`{name}` is pages of files, which the kernel takes back when it needs them; nothing beside it tells what the \
         process holds: log VmRSS or RssAnon too"
    ))
}

/// Puts beside a curve what of it the kernel takes back and what it does not; `name` is that of the curve.
pub(crate) fn tell(curve: &mut Curve, name: &str, mut parts: Parts) {
    let rss = name.to_ascii_lowercase().contains("rss");
    let cached = parts.contains_key("cache") && is_usage_in_bytes(name);
    let whole = part(name).is_none() && (rss || is_usage(name) || cached);
    // What is swapped out of a cgroup is needed, and not charged as memory.
    if let Some(swap) = parts.get("swap").filter(|_| cgroup_files::file(name).is_some()) {
        curve.series.insert("swap".to_owned(), swap.clone());
    }
    if let Some(cache) = parts.remove("cache") {
        // A resident size beside a cgroup's cache is told without it.
        if rss && !is_usage(name) {
            parts.insert("anon", curve.y.clone());
        }
        parts.entry("file").or_insert(cache);
    }
    let anon = match (part(name), parts.remove("anon"), parts.get("file")) {
        (None, Some(anon), _) if whole => Some(with(&anon, parts.get("shmem"), 1.0)),
        (None, None, Some(file)) if whole => {
            curve
                .notes
                .push(format!("the page cache beside `{name}` is taken out: the kernel gives it back"));
            Some(with(&curve.y, Some(file), -1.0))
        }
        (Some("anon"), _, Some(_)) => Some(curve.y.clone()),
        _ => None,
    };
    let Some(anon) = anon else { return };
    curve.series.insert("anon".to_owned(), anon);
    for part in ["file", "swap"] {
        if let Some(values) = parts.remove(part) {
            curve.series.insert(part.to_owned(), values);
        }
    }
}

fn with(values: &[f64], other: Option<&Vec<f64>>, sign: f64) -> Vec<f64> {
    let other = |at: usize| other.and_then(|other| other.get(at)).copied().filter(|other| other.is_finite());
    values.iter().enumerate().map(|(at, value)| value + sign * other(at).unwrap_or(0.0)).collect()
}
