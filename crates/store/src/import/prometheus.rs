//! The answer of a Prometheus `query_range` (or `query` over a range): one curve a series.

use super::memory_names::{is_free, is_named, meaning};
use super::numbers::{self, BYTES, MIB, Unit};
use super::{Attempt, Hints, Missing};
use lowtide_model::{Axis, Curve, Metric};
use serde_json::{Map, Value};

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
    ("node_memory_MemAvailable_bytes", Metric::Host, BYTES),
];

/// Memory limits that come beside the curves of a query.
const LIMITS: &[&str] = &[
    "container_spec_memory_limit_bytes",
    "node_memory_MemTotal_bytes",
    "kube_pod_container_resource_limits",
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
    let limit = series
        .iter()
        .filter(|one| LIMITS.contains(&name(one)))
        .find_map(|one| points(one)?.1.last().copied());
    let mut curves: Vec<Curve> = series.iter().filter_map(|one| curve(one, hints, limit)).collect();
    if let Some(asked) = &hints.y {
        curves.retain(|curve| curve.name.split(' ').next().is_some_and(|name| is_named(name, asked)));
    }
    if curves.is_empty() { Err(no_series(series)) } else { Ok(curves) }
}

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

fn points(series: &Value) -> Option<(Vec<f64>, Vec<f64>)> {
    let values = series.get("values")?.as_array()?;
    let pair = |value: &Value| {
        let pair = value.as_array()?;
        let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
        Some((number(pair.first()?)?, number(pair.get(1)?)?))
    };
    Some(values.iter().filter_map(pair).unzip())
}

fn curve(series: &Value, hints: &Hints, limit: Option<f64>) -> Option<Curve> {
    let metric_name = name(series);
    if LIMITS.contains(&metric_name) {
        return None;
    }
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
    let told = if metric_name.is_empty() { "a series without a name" } else { metric_name };
    let notes = vec![format!("{told} taken as {}", unit.name)];
    let mut out = Curve { name: title(series), axis: Axis::Seconds, x, y, metric, notes, ..Curve::default() };
    super::set_limit(&mut out, limit);
    if is_free(metric_name) || metric_name == "node_memory_MemAvailable_bytes" {
        super::turn_round(&mut out, limit, metric_name);
    }
    Some(out)
}

fn title(series: &Value) -> String {
    let value = |label: &str| labels(series)?.get(label)?.as_str().filter(|value| !value.is_empty());
    let told: Vec<&str> = LABELS.iter().filter_map(|label| value(label)).take(2).collect();
    [vec![name(series)], told].concat().join(" ").trim().to_owned()
}
