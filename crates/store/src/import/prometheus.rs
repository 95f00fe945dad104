//! The answer of a Prometheus `query_range` (or `query` over a range): one curve a series.

use super::memory_names::{is_free, is_named, meaning};
use super::numbers::{self, BYTES, MIB, Unit};
use super::{Attempt, Hints, Missing};
use lowtide_model::{Axis, Curve, Metric};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Names whose meaning is known: cAdvisor, `node_exporter`, the process collectors, DCGM.
const KNOWN: &[(&str, Metric, Unit)] = &[
    ("container_memory_working_set_bytes", Metric::Cgroup, BYTES),
    ("container_memory_usage_bytes", Metric::Cgroup, BYTES),
    ("container_memory_rss", Metric::Anon, BYTES),
    ("process_resident_memory_bytes", Metric::Rss, BYTES),
    ("namedprocess_namegroup_memory_bytes", Metric::Rss, BYTES),
    ("DCGM_FI_DEV_FB_USED", Metric::Gpu, MIB),
    ("nvidia_smi_memory_used_bytes", Metric::Gpu, BYTES),
    ("nvidia_gpu_memory_used_bytes", Metric::Gpu, BYTES),
    ("DCGM_FI_DEV_FB_FREE", Metric::Gpu, MIB),
    ("node_memory_MemAvailable_bytes", Metric::Host, BYTES),
    ("node_memory_MemFree_bytes", Metric::Host, BYTES),
];

/// Words in names of what no job holds as its memory: parts of the page cache, counts, shares, clocks.
const NOT_HELD: &[&str] = &[
    "virtual",
    "cache",
    "cached",
    "buffers",
    "mapped",
    "swap",
    "swapcached",
    "swaptotal",
    "swapfree",
    "failcnt",
    "failures",
    "util",
    "utilization",
    "clock",
    "temp",
    "temperature",
    "percent",
    "ratio",
    "errors",
    "slab",
    "sreclaimable",
    "sunreclaim",
    "dirty",
    "writeback",
    "active",
    "inactive",
    "committed",
    "commitlimit",
    "hugepages",
    "directmap4k",
    "directmap2m",
    "directmap1g",
    "vmalloctotal",
    "vmallocused",
    "vmallocchunk",
    "pagetables",
    "kernelstack",
];

/// What is free, and what is told beside it that says the same better.
const FREE: &[(&str, &str)] = &[
    ("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED"),
    ("node_memory_MemFree_bytes", "node_memory_MemAvailable_bytes"),
];

/// What holds page cache, and what is told beside it without.
const WITH_CACHE: &[(&str, &str)] = &[
    ("container_memory_usage_bytes", "container_memory_working_set_bytes"),
    ("container_memory_usage_bytes", "container_memory_rss"),
];

/// What is told of page cache beside a series, which the kernel gives back.
const CACHES: &[(&str, &[&str])] = &[
    ("node_memory_MemFree_bytes", &["node_memory_Cached_bytes", "node_memory_Buffers_bytes"]),
    ("container_memory_usage_bytes", &["container_memory_cache"]),
];

/// What a limit is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Container,
    Node,
    Gpu,
}

/// Memory limits that come beside the curves of a query.
const LIMITS: &[(&str, Of, Unit)] = &[
    ("container_spec_memory_limit_bytes", Of::Container, BYTES),
    ("kube_pod_container_resource_limits", Of::Container, BYTES),
    ("kube_pod_container_resource_limits_memory_bytes", Of::Container, BYTES),
    ("node_memory_MemTotal_bytes", Of::Node, BYTES),
    ("machine_memory_bytes", Of::Node, BYTES),
    ("DCGM_FI_DEV_FB_TOTAL", Of::Gpu, MIB),
    ("nvidia_smi_memory_total_bytes", Of::Gpu, BYTES),
    ("nvidia_gpu_memory_total_bytes", Of::Gpu, BYTES),
];

/// Labels that say what a series is of: a limit with another value there is that of something else.
const IDENTITY: &[&str] = &[
    "instance",
    "node",
    "Hostname",
    "namespace",
    "pod",
    "container",
    "name",
    "gpu",
    "uuid",
    "UUID",
    "minor_number",
];

/// Labels that tell series apart, the most telling first.
const LABELS: &[&str] = &["pod", "container", "name", "gpu", "Hostname", "instance", "groupname", "job"];

pub(crate) fn read(text: &str, hints: &Hints) -> Attempt {
    let answer: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if let Some(error) = answer.get("error").and_then(Value::as_str).filter(|_| answer["status"] == "error") {
        return Err(Missing::Wanted(format!("it is an error of Prometheus, which says: {error}")));
    }
    let data = answer.get("data").unwrap_or(&answer);
    let series = data.get("result").and_then(Value::as_array).ok_or("no `data.result`")?;
    if super::lowtide_series::is_ours(series) {
        return super::lowtide_series::read(series);
    }
    let limits = Limits::of(series);
    let all = All::of(series);
    let mut wanted: Vec<&Value> = series.iter().filter(|one| !is_limit(name(one))).collect();
    // Who asks for one series only, or names one, means it.
    if hints.y.is_none() && wanted.iter().any(|one| is_held(name(one))) {
        wanted.retain(|one| is_held(name(one)) && !is_told_better(one, &all));
    }
    let mut curves: Vec<Curve> = wanted.iter().filter_map(|one| curve(one, hints, &limits, &all)).collect();
    if let Some(asked) = &hints.y {
        curves.retain(|curve| curve.name.split(' ').next().is_some_and(|name| is_named(name, asked)));
    }
    if curves.is_empty() { Err(no_series(series)) } else { Ok(curves) }
}

fn is_held(name: &str) -> bool {
    !name.to_ascii_lowercase().split(['_', ':']).any(|word| NOT_HELD.contains(&word))
}

fn is_told_better(one: &Value, all: &All<'_>) -> bool {
    let better = |known: &&(&str, &str)| known.0 == name(one);
    let told = |known: &(&str, &str)| all.of.contains_key(known.1);
    let of_the_same = |known: &(&str, &str)| all.beside(one, known.1).is_some();
    FREE.iter().filter(better).any(told) || WITH_CACHE.iter().filter(better).any(of_the_same)
}

/// All series by name and by their other labels: an answer holds thousands.
struct All<'a> {
    of: BTreeMap<&'a str, BTreeMap<Labels<'a>, &'a Value>>,
}

/// Names and values, in the order of the names.
type Labels<'a> = Vec<(&'a str, &'a str)>;

impl<'a> All<'a> {
    fn of(series: &'a [Value]) -> Self {
        let mut of: BTreeMap<&str, BTreeMap<_, &Value>> = BTreeMap::new();
        for one in series {
            of.entry(name(one)).or_default().entry(other_labels(one)).or_insert(one);
        }
        Self { of }
    }

    /// The series of this name with the labels of another.
    fn beside(&self, one: &Value, wanted: &str) -> Option<&'a Value> {
        self.of.get(wanted)?.get(&other_labels(one)).copied()
    }
}

/// The labels that are not the name, in one order.
fn other_labels(series: &Value) -> Labels<'_> {
    let known = labels(series).into_iter().flatten().filter(|(key, _)| *key != "__name__");
    let mut out: Labels<'_> =
        known.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).collect();
    out.sort_unstable();
    out
}

/// What is known of the page cache beside a series.
enum Cache {
    /// At its points.
    Told(Vec<f64>),
    /// At other times than it.
    Elsewhere,
}

/// The page cache told beside a series at its points, if any is.
fn cache_of(one: &Value, all: &All<'_>) -> Option<Cache> {
    let (_, names) = CACHES.iter().find(|(known, _)| *known == name(one))?;
    let (x, _) = points(one)?;
    let told = names.iter().filter_map(|wanted| points(all.beside(one, wanted)?));
    let sum = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let cache = told.map(|(at, y)| at_times(&x, &at, &y)).reduce(sum)?;
    let known = cache.iter().filter(|value| value.is_finite()).count();
    Some(if known * 10 >= x.len() * 9 { Cache::Told(cache) } else { Cache::Elsewhere })
}

/// The values told at these times, or shortly before: two series of one query may lack a point each.
fn at_times(x: &[f64], at: &[f64], y: &[f64]) -> Vec<f64> {
    let length = x.first().zip(x.last()).map_or(0.0, |(first, last)| last - first);
    let usual = length / (x.len().max(2) - 1) as f64;
    let value = |x: &f64| {
        let before = at.partition_point(|at| at <= x).checked_sub(1);
        before.filter(|before| x - at[*before] <= usual * MOST_MISSED).map_or(f64::NAN, |before| y[before])
    };
    x.iter().map(value).collect()
}

/// Points that may lack.
const MOST_MISSED: f64 = 3.0;

fn no_series(series: &[Value]) -> Missing {
    let mut names: Vec<&str> = series.iter().map(name).collect();
    names.dedup();
    let names =
        if names.is_empty() { "it is empty".to_owned() } else { format!("it holds {}", names.join(", ")) };
    Missing::Wanted(format!("no series of memory over time in Prometheus' answer; {names}"))
}

fn labels(series: &Value) -> Option<&Map<String, Value>> {
    series.get("metric")?.as_object()
}

fn name(series: &Value) -> &str {
    labels(series).and_then(|labels| labels.get("__name__")).and_then(Value::as_str).unwrap_or("")
}

fn label<'a>(series: &'a Value, name: &str) -> Option<&'a str> {
    labels(series)?.get(name)?.as_str().filter(|value| !value.is_empty())
}

fn points(series: &Value) -> Option<(Vec<f64>, Vec<f64>)> {
    let values = series.get("values")?.as_array()?;
    let pair = |value: &Value| {
        let pair = value.as_array()?;
        let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
        Some((number(pair.first()?)?, number(pair.get(1)?)?))
    };
    Some(values.iter().filter_map(pair).unzip())
}

/// Where memory ends for something.
struct Limit<'a> {
    series: &'a Value,
    of: Of,
    bytes: f64,
}

/// All limits by the pod that they are of, of which an answer may hold thousands.
struct Limits<'a>(BTreeMap<Option<&'a str>, Vec<Limit<'a>>>);

impl<'a> Limits<'a> {
    fn of(series: &'a [Value]) -> Self {
        let mut out: BTreeMap<_, Vec<Limit<'_>>> = BTreeMap::new();
        for limit in series.iter().filter_map(limit) {
            out.entry(label(limit.series, "pod")).or_default().push(limit);
        }
        Self(out)
    }

    /// Those that may be of this pod: its own and those of no pod, or all where no pod is told.
    fn of_pod<'b>(&'b self, pod: Option<&'b str>) -> impl Iterator<Item = &'b Limit<'a>> {
        let all = pod.is_none().then(|| self.0.values().flatten());
        let own = pod.map(|_| [self.0.get(&pod), self.0.get(&None)].into_iter().flatten().flatten());
        all.into_iter().flatten().chain(own.into_iter().flatten())
    }
}

fn is_limit(name: &str) -> bool {
    LIMITS.iter().any(|(limit, ..)| *limit == name)
}

fn limit(series: &Value) -> Option<Limit<'_>> {
    let (_, of, unit) = LIMITS.iter().find(|(limit, ..)| *limit == name(series))?;
    // The limits of kube-state-metrics are those of processors too.
    let memory = label(series, "resource").is_none_or(|resource| resource == "memory");
    let bytes = points(series)?.1.last()? * unit.bytes;
    // A container without a limit has 0 or nearly 2^63.
    (memory && bytes > 0.0 && bytes < 9e18).then_some(Limit { series, of: *of, bytes })
}

/// The limit of a series: of its kind, of nothing else by its labels, and with the most labels in common.
fn limit_of(series: &Value, of: Of, limits: &Limits<'_>) -> Option<f64> {
    let in_common = |limit: &Limit<'_>| {
        let both = IDENTITY.iter().filter_map(|name| label(series, name).zip(label(limit.series, name)));
        let mut count = 0;
        for (own, its) in both {
            if host(own) != host(its) {
                return None;
            }
            count += 1;
        }
        Some(count)
    };
    let able = || limits.of_pod(label(series, "pod")).filter(|limit| limit.of == of);
    let most = able().filter_map(in_common).max()?;
    let mut best = able().filter(|limit| in_common(limit) == Some(most)).map(|limit| limit.bytes);
    let first = best.next()?;
    // Of several that fit alike none is known to be its own.
    best.all(|other| (other - first).abs() < 1.0).then_some(first)
}

/// An instance without its port, which differs between exporters of one machine.
fn host(instance: &str) -> &str {
    let port = |port: &str| !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit());
    instance.rsplit_once(':').filter(|(_, end)| port(end)).map_or(instance, |(host, _)| host)
}

fn curve(series: &Value, hints: &Hints, limits: &Limits<'_>, all: &All<'_>) -> Option<Curve> {
    let metric_name = name(series);
    let (mut x, mut y) = points(series)?;
    let start = *x.first()?;
    for x in &mut x {
        *x -= start;
    }
    let known = KNOWN
        .iter()
        .find(|(known, ..)| *known == metric_name)
        .map(|(_, metric, unit)| (metric.clone(), *unit));
    let guessed = || {
        let meant = meaning(metric_name);
        let metric = meant
            .as_ref()
            .map_or_else(|| Metric::Other(metric_name.to_owned()), |meant| meant.metric.clone());
        (metric, meant.and_then(|meant| meant.unit).unwrap_or(BYTES))
    };
    let (metric, unit) = known.unwrap_or_else(guessed);
    let unit = hints.unit.as_deref().and_then(numbers::unit).unwrap_or(unit);
    for y in &mut y {
        *y *= unit.bytes;
    }
    let limit = match metric {
        Metric::Gpu => limit_of(series, Of::Gpu, limits),
        Metric::Host => limit_of(series, Of::Node, limits),
        Metric::Rss | Metric::MaxRss | Metric::Anon | Metric::PssTree | Metric::Cgroup | Metric::Other(_) => {
            limit_of(series, Of::Container, limits).or_else(|| limit_of(series, Of::Node, limits))
        }
    };
    let told = if metric_name.is_empty() { "a series without a name" } else { metric_name };
    let notes = vec![format!("{told} taken as {}", unit.name)];
    let mut out = Curve { name: title(series), axis: Axis::Seconds, x, y, metric, notes, ..Curve::default() };
    super::set_limit(&mut out, limit);
    let free = FREE.iter().any(|(free, _)| *free == metric_name);
    let mut free_name = metric_name;
    match cache_of(series, all).filter(|_| hints.y.is_none()) {
        Some(Cache::Told(cache)) => {
            without_cache(&mut out, &cache, free);
            free_name = "free memory with page cache";
        }
        Some(Cache::Elsewhere) => out.notes.push(CACHE_ELSEWHERE.to_owned()),
        None => {}
    }
    if is_free(metric_name) || free || metric_name == "node_memory_MemAvailable_bytes" {
        super::turn_round(&mut out, limit, free_name);
    }
    Some(out)
}

const CACHE_ELSEWHERE: &str =
    "the page cache beside it is told at other times and was not taken out: ask for both in one query";

/// Counts page cache as free, or puts it beside what is in use with it.
fn without_cache(curve: &mut Curve, cache: &[f64], free: bool) {
    if free {
        curve.y.iter_mut().zip(cache).for_each(|(y, cache)| *y += cache);
        curve.notes.push("page cache, which is told beside it, counts as free".to_owned());
    } else {
        let need = curve.y.iter().zip(cache).map(|(y, cache)| y - cache).collect();
        curve.series.insert("anon".to_owned(), need);
        curve.series.insert("file".to_owned(), cache.to_vec());
    }
}

fn title(series: &Value) -> String {
    let told: Vec<&str> = LABELS.iter().filter_map(|name| label(series, name)).take(2).collect();
    [vec![name(series)], told].concat().join(" ").trim().to_owned()
}
