//! The parts of a process's resident memory as /proc/PID/status tells them: anonymous memory, pages of files, which the
//! kernel takes back, and shared memory, which it does not.
//!
//! File pages are never a curve of their own: they grow as files are read, and nobody has to fix that.

use super::Missing;
use lowtide_model::Curve;
use std::collections::BTreeMap;

const PARTS: &[(&str, &str)] =
    &[("rssanon", "anon"), ("rssfile", "file"), ("rssshmem", "shmem"), ("vmswap", "swap")];

/// The sizes of each part, in bytes.
pub(crate) type Parts = BTreeMap<&'static str, Vec<f64>>;

/// The part of a process that a name is of: `RssFile`, `rss_file_kb`.
pub(crate) fn part(name: &str) -> Option<&'static str> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    PARTS.iter().find(|(start, _)| plain.contains(start)).map(|(_, part)| *part)
}

/// Whether a name is of pages of files alone.
pub(crate) fn is_file(name: &str) -> bool {
    part(name) == Some("file")
}

/// Whether a name is one of those that stand on lines of their own in /proc/PID/status.
pub(crate) fn is_of_status(name: &str) -> bool {
    part(name).is_some() || name.starts_with("vm")
}

/// Why file pages alone give no curve.
pub(crate) fn only_file(name: &str) -> Missing {
    Missing::Wanted(format!(
        "`{name}` is pages of files, which the kernel takes back when it needs them; nothing beside it tells what the \
         process holds: log VmRSS or RssAnon too"
    ))
}

/// Puts beside a curve what of it the kernel takes back and what it does not; `name` is that of the curve.
pub(crate) fn tell(curve: &mut Curve, name: &str, mut parts: Parts) {
    let whole = part(name).is_none() && name.to_ascii_lowercase().contains("rss");
    let anon = match (part(name), parts.remove("anon"), parts.get("file")) {
        (None, Some(anon), _) if whole => Some(with(&anon, parts.get("shmem"), 1.0)),
        (None, None, Some(file)) if whole => Some(with(&curve.y, Some(file), -1.0)),
        (Some("anon"), _, Some(_)) => Some(curve.y.clone()),
        _ => None,
    };
    let Some(anon) = anon else { return };
    curve.series.insert("anon".to_owned(), anon);
    for part in ["file", "swap"] {
        if let Some(values) = parts.remove(part) {
            curve.series.insert(part.to_owned(), values);
        }
    }
}

fn with(values: &[f64], other: Option<&Vec<f64>>, sign: f64) -> Vec<f64> {
    let other = |at: usize| other.and_then(|other| other.get(at)).copied().filter(|other| other.is_finite());
    values.iter().enumerate().map(|(at, value)| value + sign * other(at).unwrap_or(0.0)).collect()
}
