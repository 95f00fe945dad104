//! Resident memory by mapping, and the parts that add up to RSS.

use crate::layout::{Layout, is_anonymous, is_in_memory, is_shared_memory};
use crate::memory::{Facts, Mapping, Memory};
use crate::report::{Coverage, Kind, KindUse, MappingUse, Scan};
use crate::totals::Totals;
use lowtide_model::Bytes;
use std::collections::BTreeMap;

/// Fills in kinds, mappings and RSS.
pub(crate) fn account(scan: &mut Scan, memory: &dyn Memory, facts: &Facts, layout: &Layout, totals: &Totals) {
    scan.mappings = by_name(memory, layout);
    let resident = |kind: Kind| {
        scan.mappings.iter().filter(|map| map.kind == kind).map(|map| map.resident_bytes.0).sum()
    };
    let anonymous: u64 = resident(Kind::OtherAnonymous);
    let live = totals.objects + totals.owned + totals.unowned + totals.python_raw;
    let kept_python = totals.pools.saturating_sub(totals.pool_live);
    let kept_native = totals.heaps.saturating_sub(totals.heap_live).saturating_sub(totals.lost);
    let known = live + kept_python + kept_native;
    let parts = [
        (Kind::PythonObjects, totals.objects),
        (Kind::OwnedNative, totals.owned),
        (Kind::UnownedNative, totals.unowned),
        (Kind::PythonRaw, totals.python_raw),
        (Kind::KeptNative, kept_native),
        (Kind::KeptPython, kept_python),
        (Kind::OtherAnonymous, anonymous.saturating_sub(known)),
        (Kind::Stacks, resident(Kind::Stacks)),
        (Kind::FilePrivate, resident(Kind::FilePrivate)),
        (Kind::File, resident(Kind::File)),
        (Kind::Shared, resident(Kind::Shared)),
        (Kind::Device, resident(Kind::Device)),
    ];
    let sum: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    let told = facts.rss_bytes().0;
    scan.rss_bytes = Bytes(told.max(sum));
    if sum > told && told > 0 {
        scan.coverage.push(Coverage {
            what: "resident memory".to_owned(),
            seen_bytes: Bytes(sum),
            of_bytes: Bytes(told),
            retries: 0,
            doubt: if sum - told > told / 50 {
                "it grew while it was read".to_owned()
            } else {
                String::new()
            },
        });
    }
    let rest = (Kind::Unexplained, scan.rss_bytes.0 - sum);
    let share = |bytes: u64| if scan.rss_bytes.0 == 0 { 0.0 } else { bytes as f64 / scan.rss_bytes.0 as f64 };
    let kinds = parts.into_iter().chain([rest]);
    scan.kinds =
        kinds.map(|(kind, bytes)| KindUse { kind, bytes: Bytes(bytes), share: share(bytes) }).collect();
}

fn by_name(memory: &dyn Memory, layout: &Layout) -> Vec<MappingUse> {
    let mut rows: BTreeMap<(String, Kind), MappingUse> = BTreeMap::new();
    for mapping in memory.mappings() {
        let kind = kind_of(mapping, layout);
        let resident = memory.resident(mapping.start, mapping.end);
        let name = match mapping.name.as_str() {
            _ if kind == Kind::Stacks => "[thread stacks]".to_owned(),
            "" => "[anonymous]".to_owned(),
            name => name.to_owned(),
        };
        let row = rows.entry((name.clone(), kind)).or_insert(MappingUse {
            name,
            kind,
            count: 0,
            size_bytes: Bytes::ZERO,
            resident_bytes: Bytes::ZERO,
        });
        row.count += 1;
        row.size_bytes = row.size_bytes.saturating_add(Bytes(mapping.end.saturating_sub(mapping.start)));
        row.resident_bytes = row.resident_bytes.saturating_add(Bytes(resident));
    }
    let mut rows: Vec<MappingUse> = rows.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.resident_bytes, row.size_bytes)));
    rows
}

fn kind_of(mapping: &Mapping, layout: &Layout) -> Kind {
    let name = mapping.name.as_str();
    let private = mapping.writable && !mapping.shared;
    if layout.stacks.binary_search(&(mapping.start, mapping.end)).is_ok() {
        Kind::Stacks
    } else if is_shared_memory(mapping) || is_in_memory(mapping) && !private {
        Kind::Shared
    } else if is_in_memory(mapping) {
        // Of its own zeroes, or a copy of what others have.
        if name.starts_with("/dev/zero") { Kind::OtherAnonymous } else { Kind::FilePrivate }
    } else if name.starts_with("/dev/") || name.starts_with("anon_inode:") {
        Kind::Device
    } else if mapping.inode == 0 || is_anonymous(mapping) {
        Kind::OtherAnonymous
    } else if private {
        Kind::FilePrivate
    } else {
        Kind::File
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_looks_like_a_file_is_shared_only_where_it_is() {
        let kind = |name: &str, shared: bool, writable: bool, inode: u64| {
            let mapping =
                Mapping { name: name.into(), shared, writable, inode, readable: true, ..Mapping::default() };
            kind_of(&mapping, &Layout::default())
        };
        assert_eq!(kind("/dev/shm/torch_1 (deleted)", true, true, 7), Kind::Shared);
        assert_eq!(kind("/memfd:x (deleted)", true, false, 7), Kind::Shared);
        assert_eq!(kind("/dev/zero (deleted)", true, true, 7), Kind::Shared);
        assert_eq!(kind("", true, true, 0), Kind::Shared);
        assert_eq!(kind("/dev/zero", false, true, 7), Kind::OtherAnonymous);
        assert_eq!(kind("/dev/shm/model", false, true, 7), Kind::FilePrivate);
        assert_eq!(kind("/dev/shm/model", false, false, 7), Kind::Shared);
        assert_eq!(kind("/dev/nvidia0", true, true, 7), Kind::Device);
        assert_eq!(kind("/data/rows", true, true, 7), Kind::File);
    }
}
