//! What one line of a log says: where it stands (step, epoch, time), how large memory is, and of which rank.

use super::super::memory_names::{
    GET_INFO, Meaning, count_series, free_meaning, heap_series, is_free_word, is_named, is_now,
    is_other_memory, is_peak, is_total_of_memory, meaning, tells_no_level,
};
use super::super::numbers::{self, Found, Unit};
use super::super::times::{self, Moment};
use super::super::{Hints, cgroup_files, process_parts, whose};
use super::{clock, linked, lists, no_level};
use lowtide_model::Metric;
use std::ops::Range;

const STEP_WORDS: &[&str] = &[
    "step",
    "global_step",
    "globalstep",
    "iter",
    "iteration",
    "it",
    "optimizer_step",
    "train_step",
    "schritt",
    "étape",
    "etape",
];

/// A size under its name: the number, and the unit if one stands there.
pub(super) type Size = (String, f64, Option<Unit>);

/// What a line says.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    pub(super) run: usize,
    /// Where its line stands in the text.
    pub(super) line: Range<usize>,
    /// The line without its digits: lines that a program prints look alike.
    pub(super) shape: String,
    pub(super) asked: Option<f64>,
    pub(super) step: Option<f64>,
    /// Steps in a pass: the 83 of `step 12/83`.
    pub(super) of: Option<f64>,
    /// The step stands in a progress bar.
    pub(super) in_bar: bool,
    pub(super) epoch: Option<f64>,
    /// The epoch of the last line that named one.
    pub(super) under_epoch: Option<f64>,
    /// The time on the last line that held no size.
    pub(super) under_moment: Option<Moment>,
    pub(super) pid: Option<f64>,
    pub(super) seconds: Option<f64>,
    /// What the seconds were told in, where that is another unit.
    pub(super) told_in: Option<&'static str>,
    pub(super) moment: Option<Moment>,
    pub(super) writer: Option<Writer>,
    /// What the line begins with, which may be who wrote it.
    pub(super) label: Option<Writer>,
    /// Step and epoch of the line above, which holds no size.
    pub(super) above: Option<(Option<f64>, Option<f64>)>,
    pub(super) sizes: Vec<Size>,
    /// All the memory that there is, in numbers without a unit: the `mem_total=64000` beside `mem_free=30000`.
    pub(super) totals: Vec<Size>,
    /// Memory stands on the line in per cent.
    pub(super) per_cent: bool,
    /// What sizes are held against on the same line: the 62.5 of `RAM 12.3GB/62.5GB`.
    pub(super) bounds: Vec<Size>,
    pub(super) counts: Vec<(&'static str, f64)>,
    /// Names of sizes that are not judged, whatever they are of.
    pub(super) others: Vec<String>,
}

/// Who wrote a line, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Writer {
    number: u32,
    pub(super) name: String,
}

impl Writer {
    fn rank(number: u32) -> Self {
        Self { number, name: format!("rank {number}") }
    }

    /// The name without its numbers.
    pub(super) fn form(&self) -> String {
        self.name.chars().filter(|c| !c.is_ascii_digit()).collect()
    }
}

/// A count over a stretch of steps: `Steps 10-80:  6,529 tensors`.
pub(super) struct Stretch {
    pub(super) series: &'static str,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) count: f64,
}

pub(super) fn point(line: &str, found: &[Found<'_>], hints: &Hints) -> Point {
    let mut point = Point {
        moment: times::find(line),
        shape: shape(line),
        writer: rank(line).map(Writer::rank),
        label: label(line).filter(|_| clock::in_bracket(line).is_none()),
        ..Point::default()
    };
    let mut last_size: Option<(&Found<'_>, String)> = None;
    let lists = lists::places(line, found);
    for (number, item) in found.iter().enumerate() {
        if let Some(size) = lists[number].and_then(|place| size_in_list(line, found, place, item)) {
            point.sizes.push(size);
            continue;
        }
        let key = item.key.trim_matches(['.', '/', '-', '_']).to_ascii_lowercase();
        let short = key.rsplit(['/', '.']).next().unwrap_or(&key).to_owned();
        let bare = item.unit.is_none();
        let bounds = last_size.take().filter(|(size, _)| is_bound(line, size, item));
        if let Some((_, name)) = bounds {
            let unit = item.unit.or_else(|| name.contains(GET_INFO).then_some(numbers::BYTES));
            point.bounds.push((name, item.value, unit));
        } else if hints.x.as_deref().is_some_and(|asked| is_named(&key, asked)) {
            point.asked = Some(item.value);
            let shown = clock::shown(line, item);
            (point.seconds, point.told_in) = shown.map_or((point.seconds, point.told_in), seconds);
        } else if bare && STEP_WORDS.contains(&short.as_str()) {
            point.of = if point.step.is_none() { whole_of(item) } else { point.of };
            point.step = point.step.or(Some(item.value * thousands(item)));
        } else if bare && short == "epoch" {
            point.epoch = point.epoch.or(Some(item.value));
        } else if bare && short == "pid" {
            point.pid = Some(item.value);
        } else if let Some(shown) = clock::shown(line, item) {
            let before = (point.seconds, point.told_in);
            (point.seconds, point.told_in) = if before.0.is_none() { seconds(shown) } else { before };
        } else if let Some(series) = count_of(item, &key) {
            point.counts.push((series, item.value));
        } else {
            // `12.3/62.5 GB`: the unit of the bound is the unit of both.
            let bound = found.get(number + 1).filter(|next| is_bound(line, item, next));
            let item = &Found { unit: item.unit.or_else(|| bound?.unit), ..item.clone() };
            last_size = add_size(&mut point, line, (item, &key), hints).map(|name| (&found[number], name));
        }
    }
    if let Some(shown) = clock::in_bracket(line).filter(|_| point.seconds.is_none()) {
        (point.seconds, point.told_in) = seconds(shown);
    }
    // Ray writes `(train pid=4711)` before each line.
    let of_pid = |pid: f64| Writer { number: pid as u32, name: format!("pid {pid}") };
    point.label = point.label.take().or_else(|| point.pid.map(of_pid));
    if point.step.is_none() {
        count_by_bar(&mut point, line, found);
    }
    point
}

/// Adds what a number says of memory; the name, if it is a size that may be judged.
fn add_size(point: &mut Point, line: &str, (item, key): (&Found<'_>, &str), hints: &Hints) -> Option<String> {
    let name = full_name(line, item, key);
    let plain = item.unit.is_none() && !item.percent && !item.signed;
    point.per_cent |= item.percent && meaning(&name).is_some();
    if let Some(size) = size_in(line, item, &name, hints) {
        let name = size.0.clone();
        point.sizes.push(size);
        return Some(name);
    }
    if plain && is_total_of_memory(&name) {
        let in_bytes = cgroup_files::is_limit(&name).then_some(numbers::BYTES);
        point.totals.push((name, item.value, numbers::unit_in_name(key).or(in_bytes)));
    } else if plain && numbers::unit_of_name(key).is_some() && !tells_no_level(key) {
        point.others.push(name);
    }
    None
}

/// Takes the step from a progress bar, or from brackets after an epoch.
fn count_by_bar(point: &mut Point, line: &str, found: &[Found<'_>]) {
    let bar = found.iter().find(|item| in_bar(item));
    if let Some(counted) = bar.or_else(|| found.iter().find(|item| in_brackets(line, item))) {
        (point.step, point.of, point.in_bar) = (Some(counted.value), whole_of(counted), bar.is_some());
    }
}

fn seconds(shown: clock::Shown) -> (Option<f64>, Option<&'static str>) {
    (Some(shown.seconds), shown.unit)
}

/// Words before a name that say of what, or which.
const QUALIFIERS: &[&str] = &[
    "gpu",
    "cuda",
    "vram",
    "cpu",
    "host",
    "available",
    "avail",
    "free",
    "remaining",
    "peak",
    "max",
    "maximum",
    "current",
    "total",
    "virtual",
    "swap",
    "cached",
    "shared",
    "memory",
    "mem",
    "ram",
    "system",
    "machine",
    "process",
];

/// What DeepSpeed's `see_memory_usage` prints: memory allocated, and memory that the allocator caches.
const DEEPSPEED: &[(&str, &str)] = &[
    ("ma", "gpu allocated"),
    ("ca", "gpu reserved"),
    ("max_ma", "gpu peak allocated"),
    ("max_ca", "gpu peak reserved"),
];

/// Whether a name is `alloc`, or `max_alloc`, of a line that says what is reserved: that is what an allocator of GPU
/// memory says.
fn is_alloc_of_reserved(line: &str, key: &str) -> bool {
    let alloc = key.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part == "alloc");
    alloc && line.to_ascii_lowercase().contains("reserved")
}

/// The name with the words before it that belong to it: `gpu alloc`, `available memory`, `cpu virtual memory used`.
fn full_name(line: &str, item: &Found<'_>, key: &str) -> String {
    if let Some((_, name)) = DEEPSPEED.iter().find(|(short, _)| *short == key && line.contains("Max_CA")) {
        return (*name).to_owned();
    }
    let card = || card_before(line, item).filter(|_| key.is_empty());
    if let Some(name) = held_after(line, item).map(str::to_owned) {
        return name;
    }
    if let Some(word) = free_after(item, key) {
        return format!("{} {word}", card().as_deref().unwrap_or(key)).trim_start().to_owned();
    }
    if let Some(name) = card() {
        return name;
    }
    let behind = linked::name_behind(item).filter(|_| meaning(key).is_none() && !is_free_word(key));
    if let Some(name) = behind {
        return name;
    }
    let linked = linked::name_before(line, item);
    let (key, key_at) = linked.as_ref().map_or((key, item.key_at), |(name, at)| (name.as_str(), *at));
    let mut left = &line[..key_at];
    if ["used", "usage"].contains(&key) || is_free_word(key) {
        left = left.trim_end_matches([' ', ':']);
    }
    let mut name = key.to_owned();
    while !name.is_empty() {
        left = left.trim_end_matches(' ');
        let start = left
            .rfind(|c: char| !c.is_ascii_alphabetic())
            .map_or(0, |at| at + left[at..].chars().next().map_or(1, char::len_utf8));
        let word = left[start..].to_ascii_lowercase();
        if !QUALIFIERS.contains(&word.as_str()) {
            break;
        }
        name = format!("{word} {name}");
        left = &left[..start];
    }
    let bare = |name: &str| meaning(name).is_none_or(|meant| meant.metric != Metric::Gpu);
    if is_alloc_of_reserved(line, key) && bare(&name) { format!("gpu {name}") } else { name }
}

/// What `8.1 GB allocated, 12.3 GB reserved` says after its sizes; in `reserved 12.3 GB allocated 8.1 GB` the last of these
/// words has its size after it, so all have.
fn held_after(line: &str, item: &Found<'_>) -> Option<&'static str> {
    const HELD: [&str; 2] = ["allocated", "reserved"];
    item.unit?;
    let rest = item.rest.trim_start().strip_prefix(item.after)?.trim_start();
    let begins = |word: &&str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let word = HELD.into_iter().find(begins)?;
    let lower = line.to_ascii_lowercase();
    let last = HELD.iter().filter_map(|word| Some(lower.rfind(word)? + word.len())).max()?;
    let after = lower[last..].trim_start_matches([' ', ':', '=']);
    (!after.starts_with(|c: char| c.is_ascii_digit())).then_some(word)
}

/// What `57.1 GB left` and `RAM: 57.1 GB free` say after their size; in `used 4 GB free 60 GB` and `4 GB, free: 60 GB` that
/// word has its own.
fn free_after(item: &Found<'_>, key: &str) -> Option<String> {
    item.unit?;
    let rest = item.rest.trim_start();
    // `12.3 free of 64 GB` has its unit after the total.
    let rest =
        if is_free_word(&item.after.to_ascii_lowercase()) { rest } else { rest.strip_prefix(item.after)? };
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let word = rest[..end].to_ascii_lowercase();
    let next = rest[end..].trim_start();
    let own = next.starts_with(|c: char| c.is_ascii_digit() || matches!(c, ':' | '='));
    let held = ["used", "usage", "alloc", "reserved", "rss"].iter().any(|held| key.contains(held));
    (is_free_word(&word) && !own && !held).then_some(word)
}

/// The card of `GPU 0: 20.1 GB` and `cuda:0 20.1 GB`, as one word.
fn card_before(line: &str, item: &Found<'_>) -> Option<String> {
    let left = line[..item.at].trim_end_matches([' ', ':', '=', '\'', '"']);
    let digits = left.len() - left.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (left, number) = left.split_at(left.len() - digits);
    let left = left.trim_end_matches([' ', ':', '#']).to_ascii_lowercase();
    let card = ["gpu", "cuda"].into_iter().find(|word| left.ends_with(word));
    card.filter(|_| !number.is_empty()).map(|card| format!("{card}{number}"))
}

/// Whether `next` is what `size` is held against: `12.3GB/62.5GB`, `2,000 MB of 32,000 MB`, `59 GB free of 64 GB`.
fn is_bound(line: &str, size: &Found<'_>, next: &Found<'_>) -> bool {
    let between = line.get(line.len() - size.rest.len()..next.at).unwrap_or("").trim_start();
    let between =
        if size.unit.is_some() { between.strip_prefix(size.after).unwrap_or(between) } else { between };
    if size.key.contains(GET_INFO) {
        return between.trim() == ",";
    }
    let sizes = next.unit.is_some_and(|unit| unit.bytes > 1.0);
    sizes && !next.percent && ["/", "of", "out of"].contains(&without_state(between.trim()))
}

/// The `of` of `59000 MB free of 64000 MB` and `12 GB used of 64 GB`.
fn without_state(between: &str) -> &str {
    let (word, rest) = between.split_once(' ').unwrap_or((between, ""));
    let word = word.to_ascii_lowercase();
    if is_free_word(&word) || word == "used" { rest.trim_start() } else { between }
}

/// `step 5k`.
fn thousands(item: &Found<'_>) -> f64 {
    let rest = item.rest.strip_prefix(['k', 'K']);
    if rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)) { 1000.0 } else { 1.0 }
}

/// The rank that wrote a line: `[rank1]`, `rank 1:`, `rank=1`, `"rank": 1`.
fn rank(line: &str) -> Option<u32> {
    if !["rank", "Rank", "RANK"].iter().any(|word| line.contains(word)) {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    let mut from = 0;
    while let Some(at) = lower.get(from..)?.find("rank").map(|at| at + from) {
        from = at + 4;
        let whole = !lower[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = lower[from..].trim_start_matches([' ', ':', '=', '#', '"', '\'']);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if whole && end > 0 {
            return rest[..end].parse().ok();
        }
    }
    None
}

/// What a line begins with, if it has a number and is no time: the 3 of `3: step 10` (`srun -l`), `[default3]`, `[1,3]`,
/// `[pod/train-3/main]`, `trainer-3  |`.
fn label(line: &str) -> Option<Writer> {
    let line = line.trim_start();
    if let Some((label, rest)) = line.split_once(':') {
        let digits = !label.is_empty() && is_number(label);
        if digits && rest.starts_with([' ', '\t']) {
            return label.parse().ok().map(Writer::rank);
        }
    }
    if let Some((card, rest)) = line.split_once(", ") {
        // `0, 20000 MiB, 81920 MiB, 99 %`: nvidia-smi without its heading.
        let size = rest.split(',').next().unwrap_or("");
        let of_card = !card.is_empty() && card.len() <= 2 && is_number(card) && size.ends_with(" MiB");
        if let Some(number) = card.parse().ok().filter(|_| of_card) {
            return Some(Writer { number, name: format!("GPU {number}") });
        }
    }
    let bracket = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let bar = || line.split_once('|').filter(|(name, _)| !name.trim_end().contains(' '));
    let name = bracket.or_else(bar)?.0.trim();
    let number = name.rsplit(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty())?;
    let is_name = name.len() <= LONGEST_LABEL && !name.contains([':', '=', '%']);
    number.parse().ok().filter(|_| is_name).map(|number| Writer { number, name: name.to_owned() })
}

/// The longest name of a pod with its container.
const LONGEST_LABEL: usize = 100;

/// The 83 of `12/83` and `12/   83`.
fn whole_of(item: &Found<'_>) -> Option<f64> {
    let rest = item.rest.strip_prefix('/')?.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    numbers::number(&rest[..end]).filter(|whole| *whole >= item.value)
}

/// The step of a progress bar: `12%|###   | 83/663 [00:12<01:23,  2.1it/s]`, `83/663 [====>.....]`.
fn in_bar(item: &Found<'_>) -> bool {
    let whole = item.rest.strip_prefix('/').unwrap_or("");
    let after = whole.trim_start_matches(|c: char| c.is_ascii_digit());
    after.len() < whole.len() && after.trim_start().starts_with('[')
}

/// The step in brackets after an epoch: `Epoch [1][50/2500]`.
fn in_brackets(line: &str, item: &Found<'_>) -> bool {
    item.key.is_empty() && line[..item.at].trim_end().ends_with('[') && whole_of(item).is_some()
}

fn shape(line: &str) -> String {
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '+' | '-') || c.is_whitespace();
    line.chars().filter(|c| !digits(*c)).take(80).collect()
}

fn count_of(item: &Found<'_>, key: &str) -> Option<&'static str> {
    let after = item.after.to_ascii_lowercase();
    let counted =
        count_series(&after).filter(|_| ["tensors", "objects", "workers"].contains(&after.as_str()));
    counted.or_else(|| count_series(key).filter(|_| item.unit.is_none()))
}

/// A level of memory: no change (`+1,607 MB`), no share, and either a unit or a name that means memory.
fn size_in(line: &str, item: &Found<'_>, name: &str, hints: &Hints) -> Option<Size> {
    if item.signed || item.percent {
        return None;
    }
    let key = name.rsplit(' ').next().unwrap_or(name);
    if hints.y.as_deref().is_some_and(|asked| is_named(name, asked) || is_named(key, asked)) {
        return Some((name.to_owned(), item.value, item.unit.or_else(|| numbers::unit_in_name(key))));
    }
    if no_level::is_rate(item) || no_level::is_change(line, item) {
        return None;
    }
    // The kernel writes kB and means 1,024 bytes.
    let kernels = ["vmrss", "vmhwm", "vmswap", "rssanon", "pss_", "private_"];
    let kernels = kernels.iter().any(|start| key.starts_with(start)) || is_kernels(item);
    let unit =
        item.unit.map(|unit| if kernels && (unit.bytes - 1e3).abs() < 0.5 { numbers::KIB } else { unit });
    // `GPU0: 20.1GB` is what that card holds.
    let card = ["gpu", "cuda"].iter().any(|word| key.strip_prefix(word).is_some_and(is_number));
    let name = &if card && unit.is_some() { format!("{name} memory") } else { name.to_owned() };
    // A word that is itself a unit is the tail of another size.
    let named = numbers::unit(key).is_none();
    match (meaning(name), unit) {
        (None, Some(unit)) if unit.bytes > 1.0 => {
            let known = is_other_memory(name) || heap_series(name).is_some() || kernels;
            // What is free may be free on a disk.
            let sure = heap_series(name).is_some() || kernels || free_meaning(name).is_some();
            if !sure && no_level::is_of_others(line, item) {
                return None;
            }
            let name = if known && named || is_now(name) || is_peak(name) { name } else { "" };
            Some((name.to_owned(), item.value, Some(unit)))
        }
        (Some(Meaning { metric: Metric::Other(_), .. }), Some(_)) if no_level::is_of_others(line, item) => {
            None
        }
        (Some(_), Some(unit)) => Some(((if named { name } else { "" }).to_owned(), item.value, Some(unit))),
        (Some(meant), None) if named => Some((name.to_owned(), item.value, meant.unit)),
        // What is charged to a cgroup is more than what it needs.
        (None, None) if cgroup_files::file(key).is_some() && process_parts::part(key).is_some() => {
            Some((name.to_owned(), item.value, Some(numbers::BYTES)))
        }
        (None, None) if key.contains(GET_INFO) => Some((name.to_owned(), item.value, Some(numbers::BYTES))),
        (None, None)
            if heap_series(name).is_some()
                || free_meaning(name).is_some()
                || whose::sum_of_processes(name).is_some() =>
        {
            Some((name.to_owned(), item.value, numbers::unit_in_name(key)))
        }
        _ => None,
    }
}

/// A size in a list, under the name of all with its number.
fn size_in_list(line: &str, found: &[Found<'_>], place: lists::Place, item: &Found<'_>) -> Option<Size> {
    let head = found.get(place.head)?;
    let key = head.key.trim_matches(['.', '/', '-', '_']).to_ascii_lowercase();
    let name = full_name(line, &Found { unit: head.unit.or(place.unit), ..head.clone() }, &key);
    let meant = meaning(&name).filter(|_| !key.contains(GET_INFO) && !no_level::is_change(line, head))?;
    let unit = item.unit.or(place.unit).or(meant.unit);
    Some((format!("{name} {}", place.number), item.value, unit))
}

/// How names of /proc/meminfo and of a process's status and smaps begin.
const KERNELS: &[&str] = &[
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "Swap",
    "Active",
    "Inactive",
    "Anon",
    "Mapped",
    "Shmem",
    "Slab",
    "SReclaimable",
    "SUnreclaim",
    "Vm",
    "Rss",
    "Pss",
    "Private_",
    "Shared_",
];

/// Whether a size is written as the kernel writes it: `MemAvailable:   53543577 kB`.
fn is_kernels(item: &Found<'_>) -> bool {
    item.after == "kB" && KERNELS.iter().any(|start| item.key.starts_with(start))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_digit())
}

/// `Steps 10-80: 6,529 tensors`, `Steps 90+: 7,070 tensors`.
pub(super) fn stretch(found: &[Found<'_>]) -> Option<Stretch> {
    let first = found.first().filter(|item| item.key.eq_ignore_ascii_case("steps"))?;
    let counted = found.iter().find_map(|item| Some((count_of(item, "")?, item.value)))?;
    let to = if first.rest.starts_with('+') {
        f64::INFINITY
    } else if first.rest.starts_with(['-', '–', '.']) {
        found.get(1)?.value
    } else {
        return None;
    };
    Some(Stretch { series: counted.0, from: first.value, to, count: counted.1 })
}
