//! What scans in a recording say: which objects the growth is, and who holds them.
//!
//! Reads the few fields it needs of `lowtide.scan/1`; a report that is none says nothing. The difference of two scans of a
//! process is told, of the last two between which it grew, because that is growth; what was there before the first is not.
//! Not here: making a scan (crate `scan`), nor deciding a kind by it.

use crate::outlook::{AND_SCAN, SCAN};
use crate::phrases::{duration, number, size};
use crate::verdict::{Group, Kind, Verdict};
use lowtide_model::{ProcKey, ScanRow};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Processes whose scans are remembered, and how many of each.
const MOST_PROCESSES: usize = 16;
const MOST_SCANS: usize = 4;
/// A type, or a part of memory, is named when it makes up this part of what grew between the scans.
const NAMED_PART: f64 = 0.4;
/// Growth between two scans below this is not worth a name.
const WORTH: f64 = 8e6;
/// A holder is named when this share of the objects that were looked at is held that way.
const AGREED: f64 = 0.5;
/// Longest name of a type or a holder that is told.
const LONGEST: usize = 160;

/// From this share on all are held one way: with 64 samples a share is known to about the rest.
const ALL: f64 = 0.9;

impl Holder {
    /// How the objects that grew are held, with what part of them is held otherwise.
    fn words(&self) -> String {
        let also = if self.also.is_empty() { String::new() } else { format!("; {}", clean(&self.also)) };
        format!(", {}held by {}{also}", self.part(), clean(&self.text))
    }

    /// Which part of them, where it is not all.
    fn part(&self) -> String {
        if self.share >= ALL { String::new() } else { format!("{:.0} % of that ", 100.0 * self.share) }
    }
}

/// The fields of a report that are read.
#[derive(Clone, Debug, Default, Deserialize)]
struct Told {
    rss_bytes: f64,
    #[serde(default)]
    kinds: Vec<Part>,
    #[serde(default)]
    types: Vec<Type>,
    #[serde(default)]
    holders: Vec<Holder>,
    #[serde(skip)]
    seconds: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Part {
    kind: String,
    bytes: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Type {
    name: String,
    module: String,
    count: f64,
    own_bytes: f64,
    owned_bytes: f64,
}

impl Type {
    fn bytes(&self) -> f64 {
        self.own_bytes + self.owned_bytes
    }

    fn full_name(&self) -> String {
        let plain = self.module.is_empty() || self.module == "builtins";
        clean(&if plain { self.name.clone() } else { format!("{}.{}", self.module, self.name) })
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Holder {
    name: String,
    module: String,
    text: String,
    share: f64,
    /// The next way, and its share.
    #[serde(default)]
    also: String,
    /// Whether only objects were looked at that were not there in the scan before.
    #[serde(default)]
    new: bool,
}

/// The last scans of each process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scans {
    of: BTreeMap<ProcKey, Vec<Told>>,
}

/// What the growth between two scans was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grown {
    /// The line of evidence.
    sentence: String,
    /// A few words for the headline: what it is, and who holds it.
    short: Option<String>,
    /// What to do about it, where that is known.
    action: Option<String>,
}

impl Scans {
    /// Takes a scan.
    pub(crate) fn push(&mut self, row: &ScanRow) {
        let Ok(told) = serde_json::from_str::<Told>(&row.report) else { return };
        let told = Told { seconds: row.tick.seconds(), ..told };
        if self.of.len() >= MOST_PROCESSES && !self.of.contains_key(&row.process) {
            return;
        }
        let all = self.of.entry(row.process).or_default();
        all.push(told);
        let before = all.len().saturating_sub(MOST_SCANS);
        all.drain(..before);
    }

    /// What grew in this process last, where two scans tell that were made after the job began to do steps: what came between one of
    /// before that and one of after it was loaded.
    pub(crate) fn grown(&self, key: ProcKey, began: f64) -> Option<Grown> {
        let mut pairs = self.of.get(&key)?.windows(2).rev();
        let (before, after, grown) = pairs.find_map(|pair| {
            let [before, after] = pair else { return None };
            let counts = before.seconds >= began || after.seconds < began;
            let grown = after.rss_bytes - before.rss_bytes;
            (counts && grown >= WORTH).then_some((before, after, grown))
        })?;
        by_type(before, after, grown).or_else(|| by_part(before, after, grown))
    }
}

/// The type that makes up most of the growth.
fn by_type(before: &Told, after: &Told, grown: f64) -> Option<Grown> {
    // The lists are cut: what is not in the older one held at most as much as its last row.
    let unlisted = before.types.last().map_or(0.0, Type::bytes);
    let growth = |new: &Type| {
        let old = before.types.iter().find(|old| old.name == new.name && old.module == new.module);
        let (bytes, count) = old.map_or((unlisted, 0.0), |old| (old.bytes(), old.count));
        (new.bytes() - bytes, new.count - count)
    };
    let each = after.types.iter().map(|new| (growth(new), new));
    let ((bytes, count), most) = each.max_by(|a, b| a.0.0.total_cmp(&b.0.0))?;
    if bytes < NAMED_PART * grown {
        return None;
    }
    let holder = after.holders.iter().find(|holder| {
        let same = holder.name == most.name && holder.module == most.module;
        // One that holds no more than was there before need not have grown.
        let grew = holder.new || holder.share * most.bytes() > most.bytes() - bytes;
        same && grew && holder.share >= AGREED && !holder.text.is_empty()
    });
    let name = most.full_name();
    let held = holder.map(Holder::words).unwrap_or_default();
    let part = (bytes / grown * 100.0).min(100.0);
    let sentence = format!(
        "{} {} more objects of {name} with {}, {part:.0} % of the growth{held}",
        between(before, after, grown),
        number(count.max(0.0)),
        size(bytes)
    );
    let held = holder.map(|holder| format!(", {}held by {}", holder.part(), short_of(&holder.text)));
    let held = held.unwrap_or_default();
    let action = holder.map(|holder| format!("bound or clear what holds {name}: {}", short_of(&holder.text)));
    Some(Grown { sentence, short: Some(format!("{name}{held}")), action })
}

/// The part of memory that makes up most of the growth, where no type does.
fn by_part(before: &Told, after: &Told, grown: f64) -> Option<Grown> {
    let old = |kind: &str| before.kinds.iter().find(|part| part.kind == kind).map_or(0.0, |part| part.bytes);
    let each = after.kinds.iter().map(|part| (part.bytes - old(&part.kind), part));
    let (bytes, most) = each.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let what = words_of(&most.kind)?;
    if bytes < NAMED_PART * grown {
        return None;
    }
    let part = (bytes / grown * 100.0).min(100.0);
    let sentence = format!(
        "{} {} more of {what}, {part:.0} % of the growth",
        between(before, after, grown),
        size(bytes)
    );
    Some(Grown { sentence, short: Some(what.to_owned()), action: action_for(&most.kind).map(str::to_owned) })
}

fn between(before: &Told, after: &Told, grown: f64) -> String {
    let (from, to) = (duration(before.seconds), duration(after.seconds));
    format!("scans at {from} and {to}, {} apart in memory, show", size(grown))
}

/// What a part is called; those that are only a mixture of others are not told.
fn words_of(kind: &str) -> Option<&'static str> {
    match kind {
        "unowned_native" => Some("live native memory that no Python object owns"),
        "kept_native" => Some("freed memory that malloc keeps"),
        "kept_python" => Some("freed memory that Python's allocator keeps"),
        "stacks" => Some("thread stacks"),
        "shared" => Some("shared memory"),
        "file" => Some("file pages"),
        _ => None,
    }
}

/// What helps where a part of memory grows that no object owns.
fn action_for(kind: &str) -> Option<&'static str> {
    match kind {
        "kept_native" => {
            Some("set MALLOC_ARENA_MAX=2 or preload jemalloc; `lowtide squeeze` shows what a trim gives back")
        }
        "unowned_native" => Some(
            "look at native code that the job calls: its buffers are live, and no Python object owns them",
        ),
        "stacks" => Some("find what starts threads and never ends them"),
        _ => None,
    }
}

/// The part of a path that a person looks for: the container with the most entries, which is what grows, and who has it; of a path
/// without one, its end.
fn short_of(path: &str) -> String {
    let steps: Vec<&str> = path.split(" <- ").collect();
    let entries = |step: &str| step.rsplit_once(" of ").and_then(|(_, count)| count.parse::<u64>().ok());
    let largest =
        (0..steps.len()).filter(|at| entries(steps[*at]).is_some()).max_by_key(|at| entries(steps[*at]));
    let from = largest.unwrap_or(steps.len().saturating_sub(2));
    clean(&steps[from..(from + 2).min(steps.len())].join(", "))
}

/// Foreign text as one short line.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect()
}

impl Verdict {
    /// Names what grew.
    pub(crate) fn tell_scans(&mut self, grown: Option<Grown>) {
        let Some(grown) = grown.filter(|_| self.group != Group::Flat) else { return };
        self.evidence.insert(self.evidence.len().min(1), grown.sentence);
        // What a scan has named needs no scan.
        if let Some(action) = grown.action {
            for line in &mut self.advice {
                *line = line.replace(SCAN, &action).replace(AND_SCAN, &format!("; {action}"));
            }
            if self.verdict == Kind::Leak {
                self.advice.retain(|line| *line != action);
                self.advice.insert(0, action);
            }
        }
        let named = matches!(self.verdict, Kind::Leak | Kind::CacheFill | Kind::WarmUp | Kind::TooEarly);
        if let Some(short) = grown.short.filter(|_| named) {
            self.headline = match self.bytes_per_example {
                Some(each) => format!("{}; {} an example: {short}", self.headline, size(each)),
                None => format!("{}; what grows: {short}", self.headline),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judge;
    use lowtide_model::{Axis, Context, Metric, Tick};
    use proptest::prelude::*;

    const KEY: ProcKey = ProcKey { pid: 7, start_ticks: 1 };

    fn row(second: u64, report: &serde_json::Value) -> ScanRow {
        ScanRow { tick: Tick(second * 1_000_000_000), process: KEY, report: report.to_string() }
    }

    fn report(rss: u64, types: &[(&str, u64, u64)], kept: u64) -> serde_json::Value {
        let types: Vec<_> = types
            .iter()
            .map(|(name, count, owned)| {
                serde_json::json!({"name": name, "module": "m", "count": count,
                "own_bytes": 0, "owned_bytes": owned, "absent_bytes": 0})
            })
            .collect();
        serde_json::json!({"schema": "lowtide.scan/1", "rss_bytes": rss, "types": types,
            "kinds": [{"kind": "kept_native", "bytes": kept, "share": 0.1}],
            "holders": [{"name": "Core", "module": "m", "count": 3, "bytes": 1, "samples": 48, "path": [],
                "text": "Core <- Image.core <- list of 663 <- global DATASET of module train", "share": 1.0, "doubt": ""}]})
    }

    fn grown(before: &serde_json::Value, after: &serde_json::Value) -> Option<Grown> {
        let mut scans = Scans::default();
        scans.push(&row(20, before));
        assert_eq!(scans.grown(KEY, 0.0), None, "one scan is no growth");
        scans.push(&row(60, after));
        scans.grown(KEY, 0.0)
    }

    #[test]
    fn two_holders_share_what_grew() {
        let held = |share: f64, also: &str| Holder {
            name: String::new(),
            module: String::new(),
            text: "bytes <- list of 9 <- Store.rows <- global store of module __main__".to_owned(),
            share,
            also: also.to_owned(),
            new: true,
        };
        let both = held(0.61, "37 % by bytes <- set of 5 <- Store.seen").words();
        assert!(
            both.starts_with(", 61 % of that held by bytes <- list of 9")
                && both.ends_with("; 37 % by bytes <- set of 5 <- Store.seen"),
            "{both}"
        );
        assert!(held(0.97, "").words().starts_with(", held by bytes <- list of 9"));
    }

    #[test]
    fn the_type_that_grew_is_named_with_its_holder() {
        let before = report(100_000_000, &[("Big", 5, 60_000_000), ("Core", 10, 1_000_000)], 0);
        let after = report(200_000_000, &[("Core", 106, 97_000_000), ("Big", 5, 60_000_000)], 0);
        let told = grown(&before, &after).unwrap();
        assert_eq!(
            told.sentence,
            "scans at 20 s and 60 s, 95.4 MiB apart in memory, show 96 more objects of m.Core with 91.6 MiB, 96 % of \
             the growth, held by Core <- Image.core <- list of 663 <- global DATASET of module train"
        );
        assert_eq!(
            told.short.as_deref(),
            Some("m.Core, held by list of 663, global DATASET of module train")
        );
        let mut verdict = Judge::new(Context::default(), Axis::Seconds, Metric::Anon).verdict_as(Kind::Leak);
        assert_eq!(verdict.advice[0], SCAN);
        verdict.advice.push(format!("give it more{AND_SCAN}"));
        verdict.tell_scans(Some(told));
        let action = "bound or clear what holds m.Core: list of 663, global DATASET of module train";
        assert_eq!(verdict.advice, [action.to_owned(), format!("give it more; {action}")]);
    }

    #[test]
    fn of_a_long_way_the_largest_container_and_who_has_it_are_told_first_and_come_before_other_advice() {
        let way = "Tensor <- list of 3384 <- Keep.h <- list of 3 <- CallbackHandler.callbacks <- global t of module __main__";
        assert_eq!(short_of(way), "list of 3384, Keep.h");
        assert_eq!(short_of("A <- A.next <- global head of module m"), "A.next, global head of module m");
        assert_eq!(short_of("set of 9"), "set of 9");
        let action = Some("bound or clear what holds T: list of 3384, Keep.h".to_owned());
        let grown = Grown { sentence: String::new(), short: None, action: action.clone() };
        let mut verdict = Judge::new(Context::default(), Axis::Seconds, Metric::Anon).verdict_as(Kind::Leak);
        verdict.advice = vec!["look at what the training loop keeps".to_owned()];
        verdict.tell_scans(Some(grown));
        assert_eq!(verdict.advice.first(), action.as_ref());
        assert_eq!(verdict.advice.len(), 2);
    }

    #[test]
    fn what_was_loaded_between_a_scan_before_the_first_step_and_one_after_it_is_no_growth() {
        let of = |count: u64| report(count * 1_000_000, &[("Core", count, count * 1_000_000)], 0);
        let mut scans = Scans::default();
        scans.push(&row(20, &of(100)));
        scans.push(&row(60, &of(200)));
        assert_eq!(scans.grown(KEY, 40.0), None);
        assert!(scans.grown(KEY, 10.0).is_some(), "both after it");
        assert!(scans.grown(KEY, 90.0).is_some(), "both before it: it grew while it loaded");
        scans.push(&row(90, &of(300)));
        assert!(scans.grown(KEY, 40.0).is_some());
    }

    #[test]
    fn a_holder_of_what_was_there_before_is_not_the_holder_of_what_grew() {
        let before = report(100_000_000, &[("Core", 80, 80_000_000)], 0);
        let mut after = report(120_000_000, &[("Core", 100, 100_000_000)], 0);
        after["holders"][0]["share"] = 0.79.into();
        let told = grown(&before, &after).unwrap();
        assert!(!told.sentence.contains("held by"), "{told:?}");
        after["holders"][0]["new"] = true.into();
        let told = grown(&before, &after).unwrap();
        assert!(told.sentence.contains("held by Core <- Image.core"), "{told:?}");
    }

    #[test]
    fn a_scan_of_after_growth_ended_hides_nothing() {
        let of = |count: u64| report(count * 1_000_000, &[("Core", count, count * 1_000_000)], 0);
        let mut scans = Scans::default();
        for (second, count) in [(20, 100), (60, 200), (90, 200), (120, 201)] {
            scans.push(&row(second, &of(count)));
        }
        let told = scans.grown(KEY, 0.0).unwrap();
        assert!(told.sentence.starts_with("scans at 20 s and 60 s, 95.4 MiB apart in memory"), "{told:?}");
    }

    #[test]
    fn memory_that_the_allocator_keeps_is_named_where_no_type_grew() {
        let types = [("Big", 5, 60_000_000)];
        let told =
            grown(&report(100_000_000, &types, 1_000_000), &report(200_000_000, &types, 95_000_000)).unwrap();
        assert!(told.sentence.contains("of freed memory that malloc keeps, 94 % of the growth"), "{told:?}");
        assert!(told.action.is_some_and(|action| action.contains("MALLOC_ARENA_MAX")));
    }

    #[test]
    fn small_growth_and_growth_of_many_small_things_have_no_name() {
        let types = [("Big", 5, 60_000_000)];
        assert_eq!(grown(&report(100_000_000, &types, 0), &report(104_000_000, &types, 4_000_000)), None);
        assert_eq!(grown(&report(100_000_000, &types, 0), &report(200_000_000, &types, 10_000_000)), None);
    }

    #[test]
    fn a_type_that_the_older_list_did_not_reach_is_not_called_new() {
        let before = report(100_000_000, &[("Big", 5, 60_000_000)], 0);
        let after = report(160_000_000, &[("Core", 106, 65_000_000), ("Big", 5, 60_000_000)], 0);
        assert_eq!(grown(&before, &after), None);
    }

    proptest! {
        #[test]
        fn no_report_panics(text: String, second in 0_u64..1000) {
            let mut scans = Scans::default();
            for second in [second, second + 1] {
                scans.push(&ScanRow { tick: Tick(second), process: KEY, report: text.clone() });
            }
            let _ = scans.grown(KEY, 0.0);
        }
    }
}
