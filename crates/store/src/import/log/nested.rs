//! Records within the records of a log: `{"step": 1, "mem": {"rss": 3, "gpu": 20}}`, where `gpu` is memory because of `mem`.

use super::super::memory_names::meaning;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The text with such names written out, as `mem.gpu`, on a line each.
pub(super) fn named(text: &str) -> Cow<'_, str> {
    let mut any = false;
    let mut out = String::new();
    for line in text.lines() {
        match written_out(line) {
            Some(written) => {
                if !any {
                    // What stands before the first such record stays.
                    out.push_str(&text[..line.as_ptr() as usize - text.as_ptr() as usize]);
                    any = true;
                }
                out.push_str(&written);
            }
            None if any => out.push_str(line),
            None => continue,
        }
        out.push('\n');
    }
    if any { Cow::Owned(out) } else { Cow::Borrowed(text) }
}

fn written_out(line: &str) -> Option<String> {
    // A record in a record.
    if !line.trim_start().starts_with('{') || line.matches('{').count() < 2 {
        return None;
    }
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
