//! Enum words and numbers as they stand in columns.

use lowtide_model::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The word serde gives a unit variant (`loader_worker`), or nothing for anything else.
pub(crate) fn word<T: Serialize>(value: &T) -> Option<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Some(word),
        Ok(_) | Err(_) => None,
    }
}

/// The variant of a word, if this version knows it.
pub(crate) fn unword<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}

/// `SQLite` integers are signed; nothing we count comes near the difference.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Bytes as a column.
pub(crate) fn size(value: Option<Bytes>) -> Option<i64> {
    value.map(|bytes| int(bytes.0))
}

/// A neighbour of `last` that is left out when it says the same.
pub(crate) fn unless_same(value: Bytes, last: Bytes) -> Option<i64> {
    (value != last).then(|| int(value.0))
}
