//! What the scans of a run found: which objects the growth is, who holds them, and where memory is.
//!
//! Reads the few fields a page shows of `lowtide.scan/1`; a report that is none is left out. The last two scans of one process
//! between which it grew give what grew; where it did not, the newest gives what it held. Not here: making a scan (crate `scan`), nor the sentence of the
//! verdict that names the cause (see `verdict::scans`).

use lowtide_model::{ProcKey, Recording, Role, ScanRow};
use lowtide_verdict::{RoleFound, Verdict};
use serde::{Deserialize, Serialize};

/// Rows of each table.
const MOST_ROWS: usize = 8;
/// What makes up less than this part of the growth, or of all memory, is not worth a line.
const WORTH_PART: f64 = 0.01;
/// Growth between two scans below this is none that could be told apart.
const WORTH: f64 = 8e6;
/// Letters of a name and of a way to a holder.
const LONGEST_NAME: usize = 120;
const LONGEST_WAY: usize = 400;

/// The scans of one process as a page shows them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Scanned {
    pub(crate) pid: u32,
    pub(crate) role: Role,
    /// When the newest was made.
    pub(crate) seconds: f64,
    pub(crate) rss_bytes: f64,
    /// The scan it is held against, where there are two.
    pub(crate) since: Option<Since>,
    pub(crate) types: Vec<TypeRow>,
    pub(crate) holders: Vec<HolderRow>,
    pub(crate) parts: Vec<PartRow>,
    /// CPU time of the newest scan.
    pub(crate) cpu_ms: f64,
}

/// The older scan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Since {
    pub(crate) seconds: f64,
    pub(crate) grown_bytes: f64,
}

/// A type of object; the growth is since the older scan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TypeRow {
    pub(crate) name: String,
    pub(crate) count: f64,
    pub(crate) bytes: f64,
    pub(crate) more_count: Option<f64>,
    pub(crate) more_bytes: Option<f64>,
}

/// Who holds the objects of a type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HolderRow {
    pub(crate) name: String,
    pub(crate) count: f64,
    pub(crate) bytes: f64,
    /// From the objects up to a name a person knows; empty where there is no common holder.
    pub(crate) way: Vec<String>,
    /// How many of the objects looked at agree, of how many.
    pub(crate) agree: f64,
    pub(crate) samples: f64,
    pub(crate) doubt: String,
}

/// A part of resident memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PartRow {
    pub(crate) name: &'static str,
    pub(crate) bytes: f64,
    pub(crate) share: f64,
    pub(crate) more_bytes: Option<f64>,
}

/// The fields of a report that are read.
#[derive(Debug, Deserialize)]
struct Told {
    rss_bytes: f64,
    #[serde(default)]
    kinds: Vec<Part>,
    #[serde(default)]
    types: Vec<Type>,
    #[serde(default)]
    holders: Vec<Holder>,
    #[serde(default)]
    cost: Cost,
}

#[derive(Debug, Deserialize)]
struct Part {
    kind: String,
    bytes: f64,
    #[serde(default)]
    share: f64,
}

#[derive(Debug, Deserialize)]
struct Type {
    name: String,
    #[serde(default)]
    module: String,
    count: f64,
    own_bytes: f64,
    owned_bytes: f64,
}

#[derive(Debug, Deserialize)]
struct Holder {
    name: String,
    #[serde(default)]
    module: String,
    #[serde(default)]
    count: f64,
    #[serde(default)]
    bytes: f64,
    #[serde(default)]
    samples: f64,
    #[serde(default)]
    text: String,
    #[serde(default)]
    /// Not in scans of older versions.
    agree: Option<f64>,
    #[serde(default)]
    share: f64,
    #[serde(default)]
    doubt: String,
}

#[derive(Debug, Default, Deserialize)]
struct Cost {
    #[serde(default)]
    cpu_ms: f64,
}

impl Type {
    fn bytes(&self) -> f64 {
        self.own_bytes + self.owned_bytes
    }
}

/// The scans of the judged process, or of the one scanned last.
pub(crate) fn scanned(recording: &Recording, roles: &[RoleFound], main: &Verdict) -> Option<Scanned> {
    let read = |row: &ScanRow| Some((row.tick.seconds(), serde_json::from_str::<Told>(&row.report).ok()?));
    let of = |key: ProcKey| recording.scans.iter().filter(move |row| row.process == key).filter_map(read);
    let judged = main.process.as_ref().map(|process| process.key);
    let last = recording.scans.last().map(|row| row.process);
    let key = judged.filter(|key| of(*key).next().is_some()).or(last)?;
    let told: Vec<(f64, Told)> = of(key).collect();
    let grew = |pair: &&[(f64, Told)]| pair[1].1.rss_bytes - pair[0].1.rss_bytes >= WORTH;
    let pair = told.windows(2).rev().find(grew);
    let (before, (seconds, newest)) = match pair {
        Some([before, newest]) => (Some(before), newest),
        Some(_) | None => (None, told.last()?),
    };
    let since = before.map(|(at, old)| Since { seconds: *at, grown_bytes: newest.rss_bytes - old.rss_bytes });
    let before = before.map(|(_, old)| old);
    let types = types(before, newest);
    Some(Scanned {
        pid: key.pid,
        role: roles.iter().find(|found| found.process == key).map_or(Role::Unknown, |found| found.role),
        seconds: *seconds,
        rss_bytes: newest.rss_bytes,
        since,
        holders: holders(newest, &types),
        parts: parts(before, newest),
        types,
        cpu_ms: newest.cost.cpu_ms,
    })
}

/// Types by what they grew, or by what they hold where there is one scan alone.
fn types(before: Option<&Told>, newest: &Told) -> Vec<TypeRow> {
    let more = |new: &Type| {
        let before = before?;
        // The lists are cut: what is not in the older one held at most as much as its last row.
        let unlisted = before.types.last().map_or(0.0, Type::bytes);
        let old = before.types.iter().find(|old| old.name == new.name && old.module == new.module);
        let (count, bytes) = old.map_or((0.0, unlisted), |old| (old.count, old.bytes()));
        Some((new.count - count, new.bytes() - bytes))
    };
    let mut rows: Vec<TypeRow> = newest
        .types
        .iter()
        .map(|one| TypeRow {
            name: full_name(&one.module, &one.name),
            count: one.count,
            bytes: one.bytes(),
            more_count: more(one).map(|more| more.0),
            more_bytes: more(one).map(|more| more.1),
        })
        .collect();
    let all = before.map_or(newest.rss_bytes, |old| newest.rss_bytes - old.rss_bytes).max(0.0);
    let weight = |row: &TypeRow| row.more_bytes.unwrap_or(row.bytes);
    rows.retain(|row| weight(row) > 0.0 && weight(row) >= WORTH_PART * all);
    rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    rows.truncate(MOST_ROWS);
    rows
}

/// Who holds the types that are shown.
fn holders(newest: &Told, shown: &[TypeRow]) -> Vec<HolderRow> {
    let row = |holder: &Holder| HolderRow {
        name: full_name(&holder.module, &holder.name),
        count: holder.count,
        bytes: holder.bytes,
        way: clean(&holder.text, LONGEST_WAY)
            .split(" <- ")
            .filter(|step| !step.is_empty())
            .map(str::to_owned)
            .collect(),
        agree: holder.agree.unwrap_or_else(|| (holder.share * holder.samples).round()),
        samples: holder.samples,
        doubt: clean(&holder.doubt, LONGEST_WAY),
    };
    let rows = newest.holders.iter().map(row);
    rows.filter(|row| shown.iter().any(|one| one.name == row.name)).take(MOST_ROWS).collect()
}

fn parts(before: Option<&Told>, newest: &Told) -> Vec<PartRow> {
    let old = |kind: &str| {
        before.map(|told| told.kinds.iter().find(|part| part.kind == kind).map_or(0.0, |p| p.bytes))
    };
    let row = |part: &Part| {
        let more_bytes = old(&part.kind).map(|old| part.bytes - old);
        Some(PartRow { name: part_words(&part.kind)?, bytes: part.bytes, share: part.share, more_bytes })
    };
    let mut rows: Vec<PartRow> = newest.kinds.iter().filter_map(row).collect();
    rows.retain(|row| row.bytes >= WORTH_PART * newest.rss_bytes);
    rows.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    rows
}

/// What a part of memory is called, as `lowtide scan` calls it.
fn part_words(kind: &str) -> Option<&'static str> {
    let words = match kind {
        "python_objects" => "Python objects",
        "owned_native" => "owned by Python objects: arrays, pixels, tables",
        "unowned_native" => "native, no owner found",
        "python_raw" => "Python's own blocks",
        "kept_native" => "freed, kept by malloc",
        "kept_python" => "freed, kept by Python",
        "stacks" => "thread stacks",
        "other_anonymous" => "other anonymous",
        "file_private" => "private file pages",
        "file" => "file pages",
        "shared" => "shared memory",
        "device" => "device mappings",
        "unexplained" => "unexplained",
        _ => return None,
    };
    Some(words)
}

fn full_name(module: &str, name: &str) -> String {
    let plain = module.is_empty() || module == "builtins";
    clean(&if plain { name.to_owned() } else { format!("{module}.{name}") }, LONGEST_NAME)
}

/// Foreign text as one line of bounded length.
fn clean(text: &str, longest: usize) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lowtide_model::Tick;
    use proptest::prelude::*;

    const KEY: ProcKey = ProcKey { pid: 7, start_ticks: 1 };

    fn recording(reports: &[String]) -> Recording {
        let row = |(n, report): (usize, &String)| ScanRow {
            tick: Tick(n as u64 * 40_000_000_000),
            process: KEY,
            report: report.clone(),
        };
        Recording { scans: reports.iter().enumerate().map(row).collect(), ..Recording::default() }
    }

    fn report(rss: u64, cores: u64) -> String {
        serde_json::json!({
            "schema": "lowtide.scan/1", "rss_bytes": rss,
            "kinds": [{"kind": "owned_native", "bytes": cores * 1_000_000, "share": 0.9}],
            "types": [
                {"name": "Core", "module": "m", "count": cores, "own_bytes": 0, "owned_bytes": cores * 1_000_000},
                {"name": "dict", "module": "builtins", "count": 9, "own_bytes": 5000, "owned_bytes": 0}
            ],
            "holders": [{"name": "Core", "module": "m", "count": cores, "bytes": cores * 1_000_000, "samples": 8,
                "share": 1.0, "text": "Core <- list of 9 <- global ROWS", "path": [], "doubt": ""}],
        })
        .to_string()
    }

    fn shown(reports: &[String]) -> Option<Scanned> {
        let recording = recording(reports);
        let verdict = lowtide_verdict::judge_recording(&recording);
        scanned(&recording, &verdict.roles, &verdict.main)
    }

    #[test]
    fn two_scans_tell_what_grew_and_who_holds_it() {
        let told = shown(&[report(100_000_000, 20), report(180_000_000, 100)]).unwrap();
        assert_eq!(told.since, Some(Since { seconds: 0.0, grown_bytes: 80_000_000.0 }));
        assert_eq!(told.types.len(), 1, "what did not grow is not told: {:?}", told.types);
        assert_eq!((told.types[0].name.as_str(), told.types[0].more_count), ("m.Core", Some(80.0)));
        assert_eq!(told.holders[0].way, ["Core", "list of 9", "global ROWS"]);
        assert_eq!((told.holders[0].agree, told.holders[0].samples), (8.0, 8.0));
        assert_eq!(told.parts[0].more_bytes, Some(80_000_000.0));
    }

    #[test]
    fn scans_of_after_growth_ended_tell_what_grew_before_or_what_is_held() {
        let of = |cores| report(100_000_000 + cores * 1_000_000, cores);
        let told = shown(&[of(20), of(100), of(100)]).unwrap();
        assert_eq!(told.since, Some(Since { seconds: 0.0, grown_bytes: 80_000_000.0 }));
        assert_eq!((told.seconds, told.types[0].more_count), (40.0, Some(80.0)));
        let flat = shown(&[of(100), of(100)]).unwrap();
        assert_eq!((flat.since, flat.types[0].more_bytes), (None, None));
        assert!((flat.types[0].count - 100.0).abs() < 1e-9, "{:?}", flat.types);
    }

    #[test]
    fn one_scan_tells_what_is_held() {
        let told = shown(&[report(100_000_000, 20)]).unwrap();
        assert_eq!((told.since, told.types[0].more_bytes), (None, None));
        assert!((told.types[0].bytes - 20_000_000.0).abs() < 1.0);
    }

    proptest! {
        #[test]
        fn a_report_that_is_none_says_nothing(text in ".{0,80}") {
            prop_assert!(shown(&[text]).is_none());
        }
    }
}
