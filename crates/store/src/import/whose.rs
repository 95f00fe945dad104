//! Of whom a name is: of a card, of the main process, of a worker, of all of them together; or of the machine.
//!
//! A file that tells of several has a curve for each: who reads only the first passes a leak of the others over. Two sizes
//! of the same one (resident and virtual, now and peak) are one.

use super::memory_names::{Meaning, heap_series, is_peak, is_total, meaning};
use super::{numbers, time_units};
use lowtide_model::Metric;

/// Words of processes, and of the side a card hangs on.
const PROCESSES: &[&str] = &[
    "cpu",
    "host",
    "ram",
    "main",
    "worker",
    "workers",
    "rank",
    "proc",
    "procs",
    "process",
    "processes",
    "child",
    "children",
    "parent",
    "trainer",
    "loader",
    "dataloader",
    "tree",
    "total",
    "sum",
];

/// Words of a sum over processes.
const SUMS: &[&str] = &["total", "sum", "tree"];

/// Words that say how memory is measured, not whose it is.
const MEASURES: &[&str] = &[
    "rss", "pss", "uss", "vms", "vsz", "resident", "virtual", "anon", "private", "shared", "swap", "mem",
    "memory", "used", "usage", "in", "use", "current", "now", "cur", "peak", "max", "maximum", "highest",
    "size", "job", "all",
];

/// The words of a name that say whose it is.
pub(crate) fn subject(name: &str) -> Vec<String> {
    let mut words = time_units::words(name);
    words.retain(|word| !MEASURES.contains(&word.as_str()) && numbers::unit(word).is_none());
    words
}

/// Whether two names are of the same, measured in two ways.
pub(crate) fn of_the_same(a: &str, b: &str) -> bool {
    subject(a) == subject(b)
}

/// Whether a word is one of these, with a number behind it or without.
fn is_one_of(word: &str, known: &[&str]) -> bool {
    known.contains(&word.trim_end_matches(|c: char| c.is_ascii_digit()))
}

/// Whether a name says of which process it is, or that it is of all of them.
pub(crate) fn is_of_process(name: &str) -> bool {
    subject(name).iter().any(|word| is_one_of(word, PROCESSES))
}

/// The meaning of a sum over processes: `total_mb`, `tree_total_gb`. The machine's total is called so, too; what tells
/// them apart is that a sum moves.
pub(crate) fn sum_meaning(name: &str) -> Option<Meaning> {
    let subject = subject(name);
    let only = subject.iter().all(|word| is_one_of(word, PROCESSES) || numbers::number(word).is_some());
    let sum = subject.iter().any(|word| SUMS.contains(&word.as_str()));
    let unit = numbers::unit_of_name(name);
    let words = time_units::words(name);
    let told = unit.is_some() || words.iter().any(|word| ["mem", "memory", "ram"].contains(&word.as_str()));
    let other = words.iter().any(|word| ["swap", "virtual", "shared", "vms", "vsz"].contains(&word.as_str()));
    (sum && only && told && !other).then_some(Meaning {
        metric: Metric::Rss,
        rank: SUM_RANK,
        unit: numbers::unit_in_name(name),
    })
}

/// The same, where the name alone says that it is no total of the machine: `tree_total_mb`, and no `total_mb`.
pub(crate) fn sum_of_processes(name: &str) -> Option<Meaning> {
    sum_meaning(name).filter(|_| !is_total(name))
}

/// A sum comes after what it is of.
const SUM_RANK: u8 = 4;

/// Whether a name is of somebody else than these, who are judged already: another process, card, or sum.
pub(crate) fn is_of_another(name: &str, meant: &Meaning, judged: &[&str]) -> bool {
    let own = subject(name);
    let is_other = !own.is_empty() && judged.iter().all(|other| subject(other) != own);
    let by_unit_alone = |name: &str| {
        meaning(name).is_some_and(|meant| matches!(meant.metric, Metric::Other(_)) && meant.rank <= BY_UNIT)
    };
    let process = is_size(meant) && is_of_process(name) && meant.metric != Metric::Host;
    let siblings = by_unit_alone(name) && judged.first().is_some_and(|best| by_unit_alone(best));
    is_other && !is_peak(name) && (process || siblings)
}

/// Whether a name is of what a process holds, where all that is judged is of cards: its heap is then part of nothing else.
pub(crate) fn is_beside_cards(name: &str, meant: &Meaning) -> bool {
    let held = meant.rank > BY_UNIT && is_size(meant) || heap_series(name) == Some("heap_used");
    held && meant.metric != Metric::Gpu && !is_peak(name)
}

/// Whether a name is of a size of memory: `cpu_usage` may as well be a share.
pub(crate) fn is_size(meant: &Meaning) -> bool {
    meant.unit.is_some() || !matches!(meant.metric, Metric::Other(_))
}

/// How that begins.
pub(crate) const NOT_READ: &str = "not read: ";

/// What is said of sizes of memory that are in a file and of which no curve was made.
pub(crate) fn unread(mut names: Vec<&str>) -> Option<String> {
    names.retain(|name| !name.is_empty());
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("{NOT_READ}`{}`{more}; --y reads one", names.join("`, `")))
}

/// Names that a note has room for.
const MOST_NAMED: usize = 8;

/// The rank of a name of which only its unit says that it is memory.
const BY_UNIT: u8 = 2;
