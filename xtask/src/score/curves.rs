//! Reads labelled curves in the corpus form. The label stays here: the engine gets the curve alone.

use lowtide_model::{Axis, Bytes, Context, Curve, Metric};
use lowtide_verdict::Group;
use serde_json::Value;
use std::path::Path;

/// A curve with its answer.
pub(super) struct Case {
    pub(super) id: String,
    pub(super) class: String,
    pub(super) label: String,
    pub(super) group: Group,
    /// Where a leak began, as the generator knows.
    pub(super) onset: Option<f64>,
    pub(super) curve: Curve,
}

/// One curve a line.
pub(super) fn load(file: &Path) -> Result<Vec<Case>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    text.lines().filter(|l| !l.trim().is_empty()).map(parse).collect()
}

/// One curve a file.
pub(super) fn load_folder(folder: &Path) -> Result<Vec<Case>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
    let mut files: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|x| x == "json"))
        .collect();
    files.sort();
    files.iter().map(|f| parse(&std::fs::read_to_string(f).map_err(|e| e.to_string())?)).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().map(|a| a.iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect()).unwrap_or_default()
}

fn unit(name: &str) -> f64 {
    match name {
        "B" => 1.0,
        "KB" => 1e3,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => 1e6,
    }
}

/// Side curves that count things.
const COUNTS: [&str; 3] = ["tensor_count", "live_buffers", "objects"];

fn parse(text: &str) -> Result<Case, String> {
    let v: Value = serde_json::from_str(text).map_err(|e| format!("not a curve: {e}"))?;
    let word = |key: &str, other: &str| v[key].as_str().unwrap_or(other).to_owned();
    let bytes = unit(&word("unit", "MB"));
    let series = v["series"].as_object().into_iter().flatten().map(|(name, values)| {
        let scale = if COUNTS.contains(&name.as_str()) { 1.0 } else { bytes };
        (name.clone(), numbers(values).iter().map(|v| v * scale).collect())
    });
    let (id, label) = (word("id", "?"), word("label", ""));
    let curve = Curve {
        name: id.clone(),
        axis: axis(&word("x_kind", "sample")),
        x: numbers(&v["x"]),
        y: numbers(&v["y"]).iter().map(|y| y * bytes).collect(),
        metric: metric(&word("metric", "rss")),
        series: series.collect(),
        context: context(&v["context"]),
        ..Curve::default()
    };
    Ok(Case {
        class: word("cls", &label),
        group: group(&label),
        onset: v["meta"]["onset_x"].as_f64(),
        id,
        label,
        curve,
    })
}

fn context(c: &Value) -> Context {
    let f = |key: &str| c[key].as_f64();
    Context {
        examples: f("examples"),
        batch: f("batch"),
        accum: f("accum"),
        world_size: f("world_size"),
        epochs: f("epochs"),
        epoch_steps: f("epoch_steps"),
        epoch_seconds: f("epoch_seconds"),
        limit: f("limit_mb").map(|mb| Bytes::from_f64(mb * 1e6)),
        limit_from: None,
        threads: f("threads"),
        restarts: f("restarts"),
        validation_every: f("validation_every"),
        validation_x: numbers(&c["validation_x"]),
        save_x: numbers(&c["save_x"]),
        ..Context::default()
    }
}

fn axis(word: &str) -> Axis {
    match word {
        "step" => Axis::Step,
        "seconds" => Axis::Seconds,
        "epoch" => Axis::Epoch,
        _ => Axis::Sample,
    }
}

fn metric(word: &str) -> Metric {
    match word {
        "rss" => Metric::Rss,
        "maxrss" => Metric::MaxRss,
        "anon" => Metric::Anon,
        "gpu" => Metric::Gpu,
        "pss_tree" => Metric::PssTree,
        "cgroup" => Metric::Cgroup,
        "host" => Metric::Host,
        other => Metric::Other(other.to_owned()),
    }
}

fn group(label: &str) -> Group {
    match label {
        "leak" => Group::Leak,
        "warmup" | "cache_fill" | "fragmentation" => Group::Bounded,
        "steady" | "spikes" => Group::Flat,
        _ => Group::TooEarly,
    }
}

/// The first so many tenths of a curve, with what was known by then.
pub(super) fn prefix(curve: &Curve, tenths: usize) -> Curve {
    let keep = (curve.x.len() * tenths / 10).max(3);
    let mut part = curve.clone();
    part.x.truncate(keep);
    part.y.truncate(keep);
    part.series.values_mut().for_each(|s| s.truncate(keep));
    let end = part.x.last().copied().unwrap_or(0.0);
    part.context.validation_x.retain(|x| *x <= end);
    part.context.save_x.retain(|x| *x <= end);
    part
}
