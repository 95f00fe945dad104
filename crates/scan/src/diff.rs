//! What changed between two scans of one process, by type.
//!
//! Constant mistakes of a single scan (a native block given to the wrong type) cancel out here.

use crate::report::{Difference, Kind, KindGrowth, Scan, Suspect, SuspectGrowth, TypeGrowth, TypeUse};
use lowtide_model::{ByteDelta, Bytes};
use std::collections::BTreeMap;

/// From `before` to `after`.
pub fn diff(before: &Scan, after: &Scan) -> Difference {
    Difference {
        rss_bytes: after.rss_bytes.since(before.rss_bytes),
        kinds: kinds(before, after),
        types: types(&before.types, &after.types),
        suspects: suspects(&before.suspects, &after.suspects),
        doubt: doubt(before, after),
    }
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
            own_bytes: new.own_bytes.since(old.own_bytes),
            owned_bytes: new.owned_bytes.since(old.owned_bytes),
        })
        .filter(|row| row.count != 0 || row.own_bytes != ByteDelta(0) || row.owned_bytes != ByteDelta(0))
        .collect();
    grown
        .sort_by_key(|row| std::cmp::Reverse((row.own_bytes.0.saturating_add(row.owned_bytes.0), row.count)));
    grown
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
            own_bytes: Bytes(own),
            owned_bytes: Bytes(owned),
            absent_bytes: Bytes::ZERO,
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
