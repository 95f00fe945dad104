//! What changed between two scans of one process, by type.
//!
//! Constant mistakes of a single scan (a native block given to the wrong type) cancel out here.

use crate::report::{
    Difference, Holders, Kind, KindGrowth, Scan, Suspect, SuspectGrowth, TypeGrowth, TypeUse,
};
use lowtide_model::{ByteDelta, Bytes};
use std::collections::BTreeMap;

/// What was not drawn once is, one time in a thousand, worth so many samples all the same; and so many times the root of what was drawn
/// comes on top of that.
const ROOM: f64 = 7.0;
const SPREAD: f64 = 3.0;

/// From `before` to `after`.
pub fn diff(before: &Scan, after: &Scan) -> Difference {
    let types = types(&before.types, &after.types);
    Difference {
        rss_bytes: after.rss_bytes.since(before.rss_bytes),
        kinds: kinds(before, after),
        holders: holders(&types, &after.holders),
        types,
        suspects: suspects(&before.suspects, &after.suspects),
        doubt: doubt(before, after),
    }
}

/// Who holds the types that grew.
fn holders(grown: &[TypeGrowth], held: &[Holders]) -> Vec<Holders> {
    let growth = |found: &Holders| {
        Grown::of(grown.iter().find(|row| row.name == found.name && row.module == found.module)?)
    };
    let told = |found: &Holders| {
        let (grown, mut found) = (growth(found)?, found.clone());
        if !found.new {
            let bytes = found.bytes.as_f64();
            let unit = bytes / found.samples.max(1) as f64;
            doubt_holder(&mut found, DrawnFrom { bytes, unit }, grown);
        }
        Some(found)
    };
    held.iter().filter_map(told).collect()
}

/// What samples were drawn from: how many bytes, and for how many each stands that is no larger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrawnFrom {
    pub(crate) bytes: f64,
    pub(crate) unit: f64,
}

/// How a type grew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grown {
    pub(crate) bytes: u64,
    /// Whether there are as many objects as before, and those own more: tables that got larger.
    pub(crate) in_place: bool,
}

impl Grown {
    /// Nothing where it did not.
    pub(crate) fn of(row: &TypeGrowth) -> Option<Self> {
        let bytes = u64::try_from(row.bytes()).ok().filter(|bytes| *bytes > 0)?;
        Some(Self { bytes, in_place: row.count == 0 && row.owned_bytes > row.own_bytes })
    }
}

/// Names no holder of growth that may not have grown. Of the bytes that samples were drawn from, those that are not growth were there
/// before, or came for others that went. Only who holds more than those is sure to hold more than before.
pub(crate) fn doubt_holder(holders: &mut Holders, from: DrawnFrom, Grown { bytes, in_place }: Grown) {
    let grown = bytes as f64;
    let elsewhere = (1.0 - holders.share) * from.bytes;
    let by_chance = ROOM * from.unit + SPREAD * (elsewhere * from.unit).sqrt();
    let none = holders.samples == 0;
    if !none && (holders.text.is_empty() || elsewhere + by_chance < grown) {
        return;
    }
    let larger = in_place.then(|| larger(holders));
    let why = if let Some(larger) = &larger {
        larger
    } else if !holders.new {
        "it is not known which of them are new, and most were there before"
    } else if none || ROOM * from.unit >= grown {
        "too few of the new ones are among those that were looked at"
    } else {
        "about as many went as came"
    };
    holders.doubt = format!("who holds what grew cannot be told: {why}");
    (holders.path, holders.text, holders.also) = Default::default();
}

/// What is said where nothing came and nothing went: tables got larger, and those that are new are of them.
fn larger(holders: &Holders) -> String {
    let share = holders.share * 100.0;
    let most = match (holders.new, holders.text.as_str()) {
        (false, _) | (_, "") => String::new(),
        (true, text) => format!("; of what is new, {share:.0} % hangs on {text}"),
    };
    format!("as many objects as before own more{most}")
}

fn kinds(before: &Scan, after: &Scan) -> Vec<KindGrowth> {
    let mut parts: BTreeMap<Kind, (Bytes, Bytes)> = BTreeMap::new();
    before.kinds.iter().for_each(|part| parts.entry(part.kind).or_default().0 = part.bytes);
    after.kinds.iter().for_each(|part| parts.entry(part.kind).or_default().1 = part.bytes);
    parts.into_iter().map(|(kind, (old, new))| KindGrowth { kind, bytes: new.since(old) }).collect()
}

/// Types that changed, those that grew most first.
pub(crate) fn types(before: &[TypeUse], after: &[TypeUse]) -> Vec<TypeGrowth> {
    let nothing = TypeUse::default();
    let mut parts: BTreeMap<(&str, &str), (&TypeUse, &TypeUse)> = BTreeMap::new();
    for row in before {
        parts.entry((&row.module, &row.name)).or_insert((&nothing, &nothing)).0 = row;
    }
    for row in after {
        parts.entry((&row.module, &row.name)).or_insert((&nothing, &nothing)).1 = row;
    }
    let mut grown: Vec<TypeGrowth> = parts
        .into_iter()
        .map(|((module, name), (old, new))| TypeGrowth {
            name: name.to_owned(),
            module: module.to_owned(),
            count: new.count as i64 - old.count as i64,
            classes: classes(old, new),
            own_bytes: new.own_bytes.since(old.own_bytes),
            owned_bytes: new.owned_bytes.since(old.owned_bytes),
        })
        .filter(|row| row.count != 0 || row.own_bytes != ByteDelta(0) || row.owned_bytes != ByteDelta(0))
        .collect();
    grown.sort_by_key(|row| std::cmp::Reverse((row.bytes(), row.count)));
    grown
}

/// How many more classes of one name there are. A scan of an earlier version did not count them.
fn classes(old: &TypeUse, new: &TypeUse) -> i64 {
    let told = |row: &TypeUse| row.classes > 0 || row.bytes() == Bytes::ZERO;
    if told(old) && told(new) { new.classes as i64 - old.classes as i64 } else { 0 }
}

/// Only those that both scans saw and counted to the end: else the difference is one of the scans.
fn suspects(before: &[Suspect], after: &[Suspect]) -> Vec<SuspectGrowth> {
    let key = |one: &Suspect| (one.attribute.clone(), one.holder.clone(), one.container.clone());
    let grown = |new: &Suspect| {
        let old = before.iter().find(|old| key(old) == key(new) && !old.cut && !new.cut)?;
        Some(SuspectGrowth {
            label: new.label.clone(),
            attribute: new.attribute.clone(),
            holder: new.holder.clone(),
            count: new.count as i64 - old.count as i64,
            bytes: new.bytes.since(old.bytes),
        })
    };
    after.iter().filter_map(grown).collect()
}

fn doubt(before: &Scan, after: &Scan) -> Vec<String> {
    let of = |scan: &Scan, which: &str| -> Vec<String> {
        let told = scan.coverage.iter().filter(|line| !line.doubt.is_empty());
        told.map(|line| format!("{which}: {}: {}", line.what, line.doubt)).collect()
    };
    let mut all = of(before, "before");
    all.extend(of(after, "after"));
    if before.python.as_ref().map(|python| &python.version)
        != after.python.as_ref().map(|python| &python.version)
    {
        all.push("the two scans saw different Pythons: not the same process?".to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, count: u64, own: u64, owned: u64) -> TypeUse {
        TypeUse {
            name: name.into(),
            module: "m".into(),
            count,
            classes: 1,
            own_bytes: Bytes(own),
            owned_bytes: Bytes(owned),
            absent_bytes: Bytes::ZERO,
            seen: crate::Seen::default(),
        }
    }

    #[test]
    fn the_type_that_grew_most_comes_first_and_unchanged_ones_are_left_out() {
        let before = vec![row("Same", 3, 30, 0), row("Gone", 2, 100, 50), row("Grew", 1, 10, 0)];
        let after = vec![row("Same", 3, 30, 0), row("Grew", 4, 40, 900), row("New", 1, 500, 0)];
        let grown = types(&before, &after);
        let names: Vec<_> = grown.iter().map(|row| (row.name.as_str(), row.count)).collect();
        assert_eq!(names, [("Grew", 3), ("New", 1), ("Gone", -2)]);
        assert_eq!(grown[0].owned_bytes, ByteDelta(900));
        assert_eq!(grown[2].own_bytes, ByteDelta(-100));
    }

    #[test]
    fn a_class_that_is_made_again_is_counted_where_both_scans_did() {
        let of = |classes: u64| TypeUse { classes, ..row("Again", classes * 10, classes * 640, 0) };
        let grown = |before: &[TypeUse], after: &[TypeUse]| types(before, after)[0].classes;
        assert_eq!(grown(&[of(3)], &[of(8)]), 5);
        assert_eq!(grown(&[], &[of(8)]), 8);
        assert_eq!(grown(&[of(8)], &[]), -8);
        let untold = TypeUse { classes: 0, ..of(3) };
        assert_eq!(grown(&[untold], &[of(8)]), 0, "an earlier version did not count them");
    }

    fn doubted(share: f64, (bytes, unit): (f64, f64), grown: u64) -> Holders {
        let mut held = Holders { text: "list".into(), new: true, samples: 64, share, ..Holders::default() };
        doubt_holder(&mut held, DrawnFrom { bytes, unit }, Grown { bytes: grown, in_place: false });
        held
    }

    #[test]
    fn of_tables_that_got_larger_nothing_went() {
        let told = |new: bool| {
            let text = "dict <- global one".to_owned();
            let mut held = Holders { text, new, samples: 2, share: 0.52, ..Holders::default() };
            let grown = Grown { bytes: 600, in_place: true };
            doubt_holder(&mut held, DrawnFrom { bytes: 800.0, unit: 400.0 }, grown);
            assert!(held.text.is_empty(), "it may not have grown most: {held:?}");
            held.doubt
        };
        let why = "who holds what grew cannot be told: as many objects as before own more";
        assert_eq!(told(true), format!("{why}; of what is new, 52 % hangs on dict <- global one"));
        assert_eq!(told(false), why);
        let row = |count, own, owned| TypeGrowth {
            count,
            own_bytes: ByteDelta(own),
            owned_bytes: ByteDelta(owned),
            ..TypeGrowth::default()
        };
        assert!(Grown::of(&row(0, 0, 600)).is_some_and(|grown| grown.in_place));
        assert!(Grown::of(&row(3, 200, 600)).is_some_and(|grown| !grown.in_place));
        assert!(Grown::of(&row(0, 0, -600)).is_none());
    }

    #[test]
    fn a_holder_is_named_only_if_what_hangs_elsewhere_is_less_than_what_grew() {
        assert_eq!(doubted(1.0, (640.0, 10.0), 640).text, "list", "all of it is new");
        assert_eq!(doubted(0.7, (640.0, 10.0), 640).text, "list");
        assert_eq!(doubted(1.0, (640.0, 10.0), 80).text, "list", "most came for others");
        let told = doubted(0.97, (640.0, 10.0), 80);
        assert!(told.text.is_empty() && told.doubt.ends_with("about as many went as came"), "{told:?}");
        let told = doubted(1.0, (40.0, 20.0), 40);
        assert!(told.text.is_empty() && told.doubt.contains("too few"), "{told:?}");
        assert_eq!(doubted(1.0, (64e6, 1e6), 64_000_000).text, "list", "one large one is no chance");
    }

    #[test]
    fn a_suspect_has_grown_only_where_both_scans_saw_all_of_it() {
        let one = |attribute: &str, bytes: u64, cut: bool| Suspect {
            attribute: attribute.into(),
            count: bytes / 10,
            bytes: Bytes(bytes),
            cut,
            ..Suspect::default()
        };
        let before = [one("seen", 100, false), one("half", 100, true), one("other", 100, false)];
        let after =
            [one("seen", 150, false), one("half", 900, false), one("new", 70, false), one("other", 9, true)];
        let grown = suspects(&before, &after);
        let grown: Vec<_> = grown.iter().map(|row| (row.attribute.as_str(), row.count, row.bytes)).collect();
        assert_eq!(grown, [("seen", 5, ByteDelta(50))]);
    }

    #[test]
    fn doubt_of_either_scan_is_doubt_of_the_difference() {
        let mut before = Scan::default();
        before.coverage.push(crate::Coverage {
            what: "main heap".into(),
            doubt: "torn".into(),
            ..Default::default()
        });
        let told = diff(&before, &Scan::default()).doubt;
        assert_eq!(told, ["before: main heap: torn"]);
    }
}
