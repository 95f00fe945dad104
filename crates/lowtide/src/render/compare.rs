//! A comparison as people read it: what differs, where it comes from, and how sure that is.

use super::table::{Align, Table};
use super::verdict::{capital, wrapped};
use lowtide_model::{ByteDelta, Bytes};
use lowtide_verdict::Comparison;
use std::fmt::Write as _;

/// The name of this JSON's form.
const SCHEMA: &str = "lowtide.compare/1";

/// One object; it names the curve where files hold several.
pub(crate) fn compare_json(curve: Option<&str>, found: &Comparison) -> String {
    let mut object = serde_json::json!({
        "schema": SCHEMA,
        "headline": found.headline(),
        "a": found.a,
        "b": found.b,
        "spread_known": found.spread_known,
        "compared_up_to": found.cut.map(|(axis, end)| serde_json::json!({"axis": axis, "x": end})),
        "mixed_axes": found.mixed_axes,
        "differences": found.differences,
    });
    if let Some(curve) = curve {
        object["curve"] = curve.into();
    }
    format!("{object}\n")
}

/// The answer, a table of what differs, and what each run is by itself.
pub(crate) fn compare_text(curve: Option<&str>, found: &Comparison, width: Option<usize>) -> String {
    let mut text = curve.map(|curve| format!("{}:\n", super::plain(curve, 200))).unwrap_or_default();
    let _ = writeln!(text, "{}.", wrapped(&capital(&found.headline()), 0, width));
    if let Some(words) = found.up_to() {
        let _ = writeln!(text, "  {words}");
    }
    text.push_str(&table(found));
    for (side, runs) in [("A", &found.a), ("B", &found.b)] {
        for run in runs {
            let words = format!("{}: {}", super::plain(&run.file, 200), run.headline);
            let _ = writeln!(text, "  {side}  {}", wrapped(&words, 5, width));
        }
    }
    text
}

fn table(found: &Comparison) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("what", Align::Left),
        ("when", Align::Left),
        ("A", right),
        ("B", right),
        ("B - A", right),
        ("95 % interval", right),
        ("", Align::Left),
    ]);
    for d in found.rows() {
        let rate = |bytes: f64| ByteDelta(bytes as i64).to_string();
        let size = |bytes: f64| if bytes < 0.0 { rate(bytes) } else { Bytes::from_f64(bytes).to_string() };
        table.row(vec![
            d.what(),
            d.when().to_owned(),
            size(d.a.mean_bytes),
            size(d.b.mean_bytes),
            rate(d.bytes),
            format!("{} .. {}", rate(d.low), rate(d.high)),
            d.word().to_owned(),
        ]);
    }
    table.text()
}
