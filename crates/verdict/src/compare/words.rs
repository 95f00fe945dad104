//! A comparison in words: what differs, where it comes from, and how sure that is.

use super::{Comparison, Difference, Memory, Phase};
use lowtide_model::{Axis, Bytes, Role};

/// Differences below the whole that are worth a row.
const MOST_ROWS: usize = 12;
/// A difference that is still there at the end, up to this part of it, is one of the end.
const LASTS: f64 = 0.9;

impl Comparison {
    /// The answer in one sentence.
    pub fn headline(&self) -> String {
        headline(self)
    }

    /// Up to where levels are compared, when one run is clearly longer than another.
    pub fn up_to(&self) -> Option<String> {
        if self.mixed_axes {
            let words = "Some runs count steps and some seconds: each is looked at over its whole length, and rates are not alike.";
            return Some(words.to_owned());
        }
        let (axis, end) = self.cut?;
        let place = match axis {
            Axis::Seconds => format!("{end:.0} s"),
            Axis::Step => format!("step {end}"),
            Axis::Sample => format!("sample {end}"),
            Axis::Epoch => format!("epoch {end}"),
        };
        Some(format!("Levels are compared up to {place}, where the shortest run ends."))
    }

    /// What a table shows: the whole and the rates, noise or not, then the parts that differ.
    pub fn rows(&self) -> impl Iterator<Item = &Difference> {
        let whole = |d: &&Difference| d.key.role.is_none() || d.key.phase.is_rate();
        let parts = self.differences.iter().filter(move |d| !whole(d) && d.real).take(MOST_ROWS);
        self.differences.iter().filter(whole).chain(parts)
    }
}

impl Difference {
    /// Which kind of memory, and whose.
    pub fn what(&self) -> String {
        what(self)
    }

    /// Which part of the run.
    pub const fn when(&self) -> &'static str {
        when(self.key.phase)
    }

    /// `differs`, `small` or `noise`: sure but too small to matter is not the same as not sure.
    pub fn word(&self) -> &'static str {
        match (self.real, is_sure(self)) {
            (true, _) => "differs",
            (false, true) => "small",
            (false, false) => "noise",
        }
    }
}

fn headline(found: &Comparison) -> String {
    let whole = |phase: Phase| {
        found
            .differences
            .iter()
            .find(|d| d.key.role.is_none() && d.key.memory == Memory::All && d.key.phase == phase)
    };
    let noise = if found.spread_known {
        "more than the spread between runs"
    } else {
        "more than the scatter inside each run; how much one run differs from the next is not known, give several a side"
    };
    if let Some(end) = whole(Phase::End).filter(|end| end.real) {
        return format!("B {}{}: {noise}", less_or_more(end, "at its end"), from(found, end));
    }
    let parts = |d: &&Difference| d.real && !d.key.phase.is_rate() && d.key.phase != Phase::Growth;
    if let Some(largest) = found.differences.iter().find(parts) {
        // What is there at the end is told as that: swap and GPU memory are no part of the whole above.
        let lasts = |d: &&Difference| {
            d.real && d.key.phase == Phase::End && d.bytes.abs() >= LASTS * largest.bytes.abs()
        };
        let part = found.differences.iter().find(lasts).unwrap_or(largest);
        let alike = if part.key.phase == Phase::End { "resident memory is alike" } else { "both end alike" };
        let words = less_or_more(part, place(part.key.phase));
        return format!("{alike}, but B {words}, {}: {noise}", what(part));
    }
    let bound = whole(Phase::End).map(|end| end.low.abs().max(end.high.abs()));
    let bound = bound.map(|bound| format!(": any difference at the end is below {}", Bytes::from_f64(bound)));
    let sure = whole(Phase::End).is_some_and(is_sure);
    let kind = if sure { "that is worth a word" } else { "that is more than noise" };
    format!("no difference {kind}{}", bound.unwrap_or_default())
}

fn less_or_more(found: &Difference, place: &str) -> String {
    let size = Bytes::from_f64(found.bytes.abs());
    let word = if found.bytes < 0.0 { "less" } else { "more" };
    let ends = if found.bytes < 0.0 { (-found.high, -found.low) } else { (found.low, found.high) };
    let (low, high) = (Bytes::from_f64(ends.0).to_string(), Bytes::from_f64(ends.1).to_string());
    let between = if low == high { String::new() } else { format!(" (between {low} and {high})") };
    format!("holds {size} {word} {place}{between}")
}

/// Which process, which kind of memory and which phase make up most of a difference at the end.
fn from(found: &Comparison, end: &Difference) -> String {
    let same = |d: &&Difference| d.real && d.key.phase == Phase::End && (d.bytes < 0.0) == (end.bytes < 0.0);
    let parts = found.differences.iter().filter(same).filter(|d| d.key.role.is_some());
    let most = parts.max_by(|x, y| x.bytes.abs().total_cmp(&y.bytes.abs()));
    let of = most.unwrap_or(end);
    let in_phase = |phase: Phase| {
        let same = |d: &&Difference| {
            d.key.role == of.key.role && d.key.memory == of.key.memory && d.key.phase == phase
        };
        found.differences.iter().find(same).map_or(0.0, |d| d.bytes.abs())
    };
    let phase = if in_phase(Phase::Growth) > in_phase(Phase::Start) {
        "it comes from growth after the start"
    } else {
        "it is there from the start"
    };
    let whose = most.map(|most| format!(", mostly {}", what(most))).unwrap_or_default();
    format!("{whose}; {phase}")
}

fn is_sure(found: &Difference) -> bool {
    found.low > 0.0 || found.high < 0.0
}

fn what(found: &Difference) -> String {
    let kind = match found.key.memory {
        Memory::All => "memory",
        Memory::Anon => "anonymous memory",
        Memory::File => "file pages",
        Memory::Shmem => "shared memory",
        Memory::Swap => "swap",
        Memory::Gpu => "GPU memory",
    };
    match found.key.role {
        None => kind.to_owned(),
        Some(role) => format!("{kind} of {}", whose(role)),
    }
}

const fn whose(role: Role) -> &'static str {
    match role {
        Role::Wrapper => "wrappers",
        Role::Trainer => "the trainer",
        Role::LoaderWorker => "loader workers",
        Role::CompileWorker => "compile workers",
        Role::Helper => "helpers",
        Role::Unknown => "other processes",
    }
}

const fn when(phase: Phase) -> &'static str {
    match phase {
        Phase::Start => "at the start",
        Phase::Growth => "growth",
        Phase::End => "at the end",
        Phase::Peak => "peak over that",
        Phase::PerStep => "growth a step",
        Phase::PerSecond => "growth a second",
        Phase::PerSample => "growth a sample",
        Phase::PerExample => "growth an example",
    }
}

const fn place(phase: Phase) -> &'static str {
    match phase {
        Phase::Start => "at its start",
        Phase::Peak => "in its peaks",
        Phase::End | Phase::Growth => "at its end",
        Phase::PerStep | Phase::PerSecond | Phase::PerSample | Phase::PerExample => "as it grows",
    }
}
