//! GPU memory that a file tells twice, as allocated and as reserved: one curve, with the second beside the first.
//!
//! What tensors hold that grows is a leak; what the allocator reserved beyond it that grows is fragmentation. Judged
//! alone, the second looks like the first. Names pair up when they are the same but for the word that tells them apart.

use super::memory_names::is_peak;
use lowtide_model::{Curve, Metric};
use std::collections::{BTreeMap, BTreeSet};

/// The side curve that the engine knows as what the allocator took.
const RESERVED: &str = "reserved";

const IN_USE: &[&str] = &["allocated", "alloc", "allocation"];
const TAKEN: &[&str] = &["reserved", "cached"];

/// Words that say no more than that it is GPU memory, and in what unit.
const PLAIN: &[&str] = &[
    "gpu", "cuda", "torch", "pytorch", "vram", "memory", "mem", "ram", "in", "bytes", "kb", "mb", "gb",
    "kib", "mib", "gib",
];

/// Which of the two a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    InUse,
    Taken,
}

/// Joins each curve of reserved memory into that of what is allocated of it.
pub(crate) fn join(curves: &mut Vec<Curve>) {
    let mut in_use: BTreeMap<Vec<String>, Vec<usize>> = BTreeMap::new();
    let mut taken = in_use.clone();
    for (at, curve) in curves.iter().enumerate() {
        match told(&curve.name).filter(|_| curve.metric == Metric::Gpu) {
            Some((Held::InUse, kin)) => in_use.entry(kin).or_default().push(at),
            Some((Held::Taken, kin)) => taken.entry(kin).or_default().push(at),
            None => {}
        }
    }
    take_the_peak_of_use(curves, &mut in_use, &taken);
    let mut joined = BTreeSet::new();
    for (kin, taken) in &taken {
        // Several of one name are told apart by nothing but their order.
        let Some(in_use) = in_use.get(kin).filter(|in_use| in_use.len() == taken.len()) else { continue };
        for (&used, &all) in in_use.iter().zip(taken) {
            let values = values_at(&curves[used].x, &curves[all]);
            let note = format!(
                "`{}` is what tensors hold, `{}` what the allocator took from the driver: where only the second grows, memory is fragmented, not leaked",
                curves[used].name, curves[all].name
            );
            curves[used].series.insert(RESERVED.to_owned(), values);
            curves[used].notes.push(note);
            // The first place is the one that matters most.
            curves.swap(used.min(all), used);
            joined.insert(used.max(all));
        }
    }
    let mut at = 0;
    curves.retain(|_| {
        at += 1;
        !joined.contains(&(at - 1))
    });
}

/// Where the only thing told beside what is reserved is the highest that was allocated (`max_allocated` and
/// `device_reserved`), that is of the same memory: a peak that stays while more is reserved tells fragmentation as well.
fn take_the_peak_of_use(
    curves: &[Curve],
    in_use: &mut BTreeMap<Vec<String>, Vec<usize>>,
    taken: &BTreeMap<Vec<String>, Vec<usize>>,
) {
    let only = |of: &BTreeMap<Vec<String>, Vec<usize>>| match of.iter().next() {
        Some((kin, at)) if of.len() == 1 && at.len() == 1 => Some((kin.clone(), at[0])),
        Some(_) | None => None,
    };
    if let Some(((peak, used), (kin, all))) = only(in_use).zip(only(taken))
        && is_peak(&curves[used].name)
        && !is_peak(&curves[all].name)
        && let Some(places) = in_use.remove(&peak)
    {
        in_use.insert(kin, places);
    }
}

/// The name to read beside what is reserved where nobody tells what is allocated now: the highest that was.
pub(crate) fn peak_of_use<'a>(best: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let is = |name: &str, wanted: Held| told(name).is_some_and(|(held, _)| held == wanted);
    let mut used = names.filter(|name| is(name, Held::InUse));
    let now = used.clone().any(|name| !is_peak(name));
    used.next().filter(|_| !now && is(best, Held::Taken) && !is_peak(best))
}

/// The name under which the engine knows one of the two beside a curve of GPU memory.
pub(crate) fn series_name(name: &str) -> Option<&'static str> {
    told(name).map(|(held, _)| match held {
        Held::InUse => "allocated",
        Held::Taken => RESERVED,
    })
}

/// Which of the two it is, and the words that it has in common with the other.
fn told(name: &str) -> Option<(Held, Vec<String>)> {
    let words = words(name);
    let is = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    let held = if is(TAKEN) {
        Held::Taken
    } else if is(IN_USE) {
        Held::InUse
    } else {
        return None;
    };
    let says_more =
        |word: &String| ![IN_USE, TAKEN, PLAIN].iter().any(|known| known.contains(&word.as_str()));
    Some((held, words.into_iter().filter(says_more).collect()))
}

/// The words of a name, also of one in camelCase.
fn words(name: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase()) {
            out.push(String::new());
        }
        if let Some(word) = out.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    out.retain(|word| !word.is_empty());
    out
}

/// The values of a curve at these x, or the last ones before them.
fn values_at(x: &[f64], of: &Curve) -> Vec<f64> {
    if x == of.x {
        return of.y.clone();
    }
    let mut known: Vec<(f64, f64)> = of.x.iter().copied().zip(of.y.iter().copied()).collect();
    known.retain(|(x, y)| x.is_finite() && y.is_finite());
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |x: &f64| {
        let before = known.partition_point(|(known, _)| known <= x).checked_sub(1);
        before.map_or(f64::NAN, |at| known[at].1)
    };
    x.iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, y: f64) -> Curve {
        let x: Vec<f64> = (0..3).map(f64::from).collect();
        Curve { name: name.to_owned(), metric: Metric::Gpu, y: vec![y; 3], x, ..Curve::default() }
    }

    fn joined(names: &[&str]) -> Vec<String> {
        let mut curves: Vec<Curve> = names.iter().map(|name| curve(name, 1e9)).collect();
        join(&mut curves);
        let told = |curve: &Curve| {
            let beside = if curve.series.contains_key(RESERVED) { " +" } else { "" };
            format!("{}{beside}", curve.name)
        };
        curves.iter().map(told).collect()
    }

    #[test]
    fn names_that_differ_in_one_word_are_one_curve() {
        for (used, all) in [
            ("allocated", "reserved"),
            ("gpu_alloc_mb", "gpu_reserved_gb"),
            ("torch.cuda.memory_allocated", "torch.cuda.memory_reserved"),
            ("cuda_memory_allocated", "reserved"),
            ("memory_allocated", "memory_cached"),
            ("gpuMemAllocated", "gpuMemReserved"),
            ("cuda:0/allocated_bytes.all.current", "cuda:0/reserved_bytes.all.current"),
            ("run a - max_memory_allocated", "run a - max_memory_reserved"),
        ] {
            assert_eq!(joined(&[used, all]), [format!("{used} +")]);
            assert_eq!(
                joined(&["rss", all, used, "gpu_used"]),
                ["rss".to_owned(), format!("{used} +"), "gpu_used".to_owned()]
            );
        }
    }

    #[test]
    fn the_peak_of_use_stands_in_where_nothing_else_is_told() {
        let (peak, all) = ("memory/max_allocated (GiB)", "memory/device_reserved (GiB)");
        assert_eq!(joined(&[all, peak]), [format!("{peak} +")]);
        assert_eq!(joined(&["allocated", "reserved", peak]), ["allocated +", peak]);
        assert_eq!(peak_of_use(all, [all, peak].into_iter()), Some(peak));
        assert_eq!(peak_of_use(all, [all, peak, "allocated"].into_iter()), None);
    }

    #[test]
    fn others_stay_apart() {
        for names in [
            ["rank 0, allocated", "rank 1, reserved"],
            ["allocated", "max reserved"],
            ["gpu0_alloc", "gpu1_reserved"],
            ["memory.used [MiB]", "memory.reserved [MiB]"],
        ] {
            assert_eq!(joined(&names), names);
        }
        let ranks = ["rank 0, allocated", "rank 0, reserved", "rank 1, allocated", "rank 1, reserved"];
        assert_eq!(joined(&ranks), ["rank 0, allocated +", "rank 1, allocated +"]);
    }

    #[test]
    fn what_was_told_at_other_places_counts_until_it_is_told_anew() {
        let mut of = curve("reserved", 2e9);
        of.y[2] = 3e9;
        assert_eq!(values_at(&[0.5, 1.0, 7.0], &of), [2e9, 2e9, 3e9]);
        assert!(values_at(&[-1.0], &of)[0].is_nan());
    }
}
