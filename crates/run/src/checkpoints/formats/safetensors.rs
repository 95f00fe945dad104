//! Safetensors: a length, a JSON header that says where each tensor lies, the tensors.

use super::{Flaw, Source, Stretch, u64_at};
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::error::Category;
use std::fmt;
use std::io::BufReader;

/// The format's own limit for a header.
const LONGEST_HEADER: u64 = 100_000_000;

/// Compares the end of the last tensor with the end of the file.
pub(crate) fn whole(source: &(impl Source + ?Sized)) -> Result<(), Flaw> {
    let size = source.size();
    let header = u64_at(source, 0)?;
    if !(2..=LONGEST_HEADER).contains(&header) {
        return Err(Flaw::wrong("does not begin with the length of a safetensors header"));
    }
    if 8 + header > size {
        return Err(Flaw::cut("ends inside its header"));
    }
    let mut text = serde_json::Deserializer::from_reader(BufReader::new(Stretch::new(source, 8, header)));
    let end = text
        .deserialize_map(Tensors)
        .and_then(|end| text.end().map(|()| end))
        .map_err(|error| of_json(&error))?;
    match end.checked_add(8 + header) {
        Some(wanted) if wanted == size => Ok(()),
        Some(wanted) if wanted > size => Err(Flaw::Cut(format!("holds {size} of {wanted} bytes"))),
        _ => Err(Flaw::wrong("is longer than its tensors")),
    }
}

/// What a JSON error says of the file.
fn of_json(error: &serde_json::Error) -> Flaw {
    match error.classify() {
        Category::Eof => Flaw::cut("ends inside its header"),
        Category::Io => Flaw::cut("ends too early"),
        Category::Syntax | Category::Data => Flaw::wrong("has a header that makes no sense"),
    }
}

/// Takes the end of the last tensor, one tensor at a time.
struct Tensors;

#[derive(serde::Deserialize)]
struct Tensor {
    data_offsets: (u64, u64),
}

impl<'de> Visitor<'de> for Tensors {
    type Value = u64;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let mut end = 0;
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let (from, until) = map.next_value::<Tensor>()?.data_offsets;
            if from > until {
                return Err(A::Error::custom("a tensor ends before it begins"));
            }
            end = end.max(until);
        }
        Ok(end)
    }
}
