//! Records within the records of a log: `{"step": 1, "mem": {"rss": 3, "gpu": 20}}`, where `gpu` is memory because of `mem`.

use super::super::memory_names::meaning;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The text with such names written out, as `mem.gpu`, on a line each.
pub(super) fn named(text: &str) -> Cow<'_, str> {
    if !text.trim_start().starts_with('{')
        || !text.lines().take(SNIFFED).any(|line| written_out(line).is_some())
    {
        return Cow::Borrowed(text);
    }
    let lines = text.lines().map(|line| written_out(line).unwrap_or_else(|| line.to_owned()) + "\n");
    Cow::Owned(lines.collect())
}

/// Lines that tell whether there is anything to do.
const SNIFFED: usize = 16;

fn written_out(line: &str) -> Option<String> {
    let mut record: Map<String, Value> = serde_json::from_str(line).ok()?;
    let mut found = Vec::new();
    for (name, value) in &mut record {
        let Some(inner) = value.as_object_mut() else { continue };
        let full = |part: &str| format!("{name}.{part}");
        let needs_it = |part: &str, value: &Value| {
            value.is_number() && meaning(part).is_none() && meaning(&full(part)).is_some()
        };
        found.extend(
            inner.iter().filter(|(part, value)| needs_it(part, value)).map(|(p, v)| (full(p), v.clone())),
        );
        inner.retain(|part, value| !needs_it(part, value));
    }
    (!found.is_empty()).then(|| {
        record.extend(found);
        Value::Object(record).to_string()
    })
}
