//! The curve format: one JSON object a curve, alone, in a list, or one a line.

use super::memory_names::{heap_series, meaning};
use super::numbers::{self, Unit};
use super::{Attempt, Hints, Missing};
use lowtide_model::{Axis, Bytes, Context, Curve, Metric};
use serde_json::{Map, Value};

/// Series that count things instead of bytes.
const COUNTS: &[&str] = &["tensor_count", "live_buffers", "objects", "workers", "threads"];

pub(crate) fn read(text: &str, hints: &Hints) -> Attempt {
    let values: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(list)) => list,
        Ok(one) => vec![one],
        Err(whole) => lines(text).ok_or_else(|| whole.to_string())?,
    };
    let mut curves = Vec::new();
    for object in values.iter().filter_map(Value::as_object) {
        curves.extend(curve(object, hints)?);
    }
    if curves.is_empty() { Err("no object with lists `x` and `y`".into()) } else { Ok(curves) }
}

fn lines(text: &str) -> Option<Vec<Value>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).ok()).collect()
}

/// Fields are asked for by name: the answer of a labelled curve (`label`, `truth`) is never looked at.
fn curve(object: &Map<String, Value>, hints: &Hints) -> Result<Option<Curve>, Missing> {
    let y_name = hints.y.as_deref().unwrap_or("y");
    let series = object.get("series").and_then(Value::as_object);
    let Some(y) = object.get(y_name).or_else(|| series?.get(y_name)).and_then(list) else { return Ok(None) };
    let x = match object.get(hints.x.as_deref().unwrap_or("x")).map(list) {
        Some(Some(x)) => x,
        Some(None) => return Ok(None),
        None => (0..y.len()).map(|n| n as f64).collect(),
    };
    let (unit, note) = unit(object, hints, &y)?;
    let scaled = |values: Vec<f64>| values.into_iter().map(|value| value * unit.bytes).collect::<Vec<_>>();
    let mut out = Curve {
        name: object.get("id").and_then(Value::as_str).unwrap_or_default().to_owned(),
        axis: object.get("x_kind").and_then(Value::as_str).map_or(Axis::Sample, axis),
        x,
        metric: object.get("metric").and_then(Value::as_str).map_or(Metric::Rss, metric),
        context: object
            .get("context")
            .and_then(Value::as_object)
            .map(|c| context(c, unit))
            .unwrap_or_default(),
        notes: vec![note],
        ..Curve::default()
    };
    if out.x.len() != y.len() {
        let (x, y) = (out.x.len(), y.len());
        out.notes.push(format!("x has {x} values and y has {y}; only the first {} are read", x.min(y)));
    }
    for (name, values) in series.into_iter().flatten() {
        let values = list(values).unwrap_or_default();
        if values.len() == y.len() {
            let values = if COUNTS.contains(&name.as_str()) { values } else { scaled(values) };
            let of_gpu = super::allocator::series_name(name).filter(|_| out.metric == Metric::Gpu);
            let known = of_gpu.or_else(|| heap_series(name)).unwrap_or(name);
            out.series.insert(known.to_owned(), values);
        } else {
            let (has, wants) = (values.len(), y.len());
            out.notes.push(format!("series `{name}` has {has} values, not {wants}; it is left out"));
        }
    }
    out.y = scaled(y);
    Ok(Some(out))
}

fn unit(object: &Map<String, Value>, hints: &Hints, y: &[f64]) -> Result<(Unit, String), Missing> {
    let said = object.get("unit").and_then(Value::as_str);
    Ok(if let Some(unit) = hints.unit.as_deref().and_then(numbers::unit) {
        (unit, format!("y taken as {}, as asked", unit.name))
    } else if let Some(unit) = said.and_then(numbers::unit) {
        (unit, format!("y is in {}", unit.name))
    } else if let Some(said) = said.filter(|said| !said.trim().is_empty()) {
        let why = format!("its unit `{said}` is not one of memory; tell the right one with --unit");
        return Err(Missing::Wanted(why));
    } else {
        let unit = numbers::guess_of_process(y);
        (unit, format!("the file names no unit; y taken as {}, {}", unit.name, numbers::how_guessed(unit)))
    })
}

/// Numbers, also as text; null and anything else is a hole.
fn list(value: &Value) -> Option<Vec<f64>> {
    let number = |item: &Value| item.as_f64().or_else(|| numbers::number(item.as_str()?)).unwrap_or(f64::NAN);
    Some(value.as_array()?.iter().map(number).collect())
}

fn axis(word: &str) -> Axis {
    match word {
        "step" | "steps" | "iteration" => Axis::Step,
        "seconds" | "second" | "time" => Axis::Seconds,
        "epoch" | "epochs" => Axis::Epoch,
        _ => Axis::Sample,
    }
}

fn metric(word: &str) -> Metric {
    match word {
        "rss" => Metric::Rss,
        "maxrss" | "max_rss" => Metric::MaxRss,
        "anon" => Metric::Anon,
        "gpu" => Metric::Gpu,
        "pss_tree" => Metric::PssTree,
        "cgroup" => Metric::Cgroup,
        "host" => Metric::Host,
        other => meaning(other).map_or_else(|| Metric::Other(other.to_owned()), |meant| meant.metric),
    }
}

fn context(object: &Map<String, Value>, unit: Unit) -> Context {
    let get = |name: &str| object.get(name).and_then(Value::as_f64).filter(|value| value.is_finite());
    let many = |name: &str| object.get(name).and_then(list).unwrap_or_default();
    // `limit_mb` is in the file's kind of megabytes.
    let binary = (unit.bytes.log2() % 10.0).abs() < 1e-9 && unit.bytes > 1.0;
    let megabyte = if binary { 1_048_576.0 } else { 1e6 };
    let limit = get("limit_bytes").or_else(|| get("limit_mb").map(|limit| limit * megabyte));
    Context {
        examples: get("examples"),
        batch: get("batch"),
        accum: get("accum"),
        world_size: get("world_size"),
        epochs: get("epochs"),
        epoch_steps: get("epoch_steps"),
        epoch_seconds: get("epoch_seconds"),
        limit: limit.map(Bytes::from_f64),
        limit_from: limit.map(|_| "the file".to_owned()),
        threads: get("threads"),
        restarts: get("restarts").or_else(|| Some(object.get("restarts")?.as_array()?.len() as f64)),
        restart_x: many("restarts"),
        validation_every: get("validation_every"),
        validation_x: many("validation_x"),
        save_x: many("save_x"),
        log_x: many("log_x"),
        shard_x: many("shard_x"),
        rollout_x: many("rollout_x"),
        step_x: many("step_x"),
    }
}
