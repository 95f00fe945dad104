//! The attributes of an instance: in a dict of its own, or in values whose names its class keeps.

use crate::climb::Ground;
use crate::names::{self, DICT_VALUES, Table};
use crate::reader::plausible;
use crate::types::{Type, Version};

/// Attributes of one instance that are looked at.
const MOST: u64 = 256;

/// Where an instance has its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// A dict with its own names.
    Dict(u64),
    /// Where the first value is; the names are those of the class.
    Values(u64),
}

/// Where the instance at `at` has its attributes.
pub(crate) fn home(ground: &Ground<'_, '_>, found: &Type, at: u64) -> Option<Home> {
    let word = |address: Option<u64>| ground.reader.word(address?);
    let in_dict = |dict: u64| {
        let values = word(dict.checked_add(DICT_VALUES)).filter(|_| plausible(dict))?;
        let head = if ground.types.version >= Version(3, 13) { 8 } else { 0 };
        Some(if values == 0 { Home::Dict(dict) } else { Home::Values(values.checked_add(head)?) })
    };
    match ground.types.version {
        version if found.inline_values(version) => {
            let dict = word(at.checked_sub(24)).filter(|dict| *dict != 0);
            dict.and_then(in_dict).or(Some(Home::Values(at + found.basic + 8)))
        }
        version if version >= Version(3, 12) && found.has_pre_header() => match word(at.checked_sub(24))? {
            values if values & 7 == 7 => Some(Home::Values(values.checked_add(1)?)),
            dict => in_dict(dict),
        },
        Version(3, 11) if found.has_pre_header() => match word(at.checked_sub(32))? {
            0 => in_dict(word(at.checked_sub(24))?),
            values => Some(Home::Values(values)),
        },
        _ => in_dict(word(at.checked_add(u64::try_from(found.dict_offset).ok().filter(|at| *at > 0)?))?),
    }
}

/// All attributes of an instance that have a value, with their names.
pub(crate) fn all(ground: &Ground<'_, '_>, found: &Type, at: u64) -> Vec<(String, u64)> {
    let Some(home) = home(ground, found, at) else { return Vec::new() };
    let (reader, version) = (ground.reader, ground.types.version);
    let table = match home {
        Home::Dict(dict) => {
            let keys = reader.word(dict + names::DICT_KEYS);
            keys.and_then(|keys| Table::read(reader, version, keys))
        }
        Home::Values(_) => shared_names(ground, found),
    };
    let Some(table) = table else { return Vec::new() };
    let entry = |number: u64| {
        let (key, own) = table.entry(reader, number)?;
        let value = match home {
            Home::Dict(_) => own,
            Home::Values(values) => reader.word(values.checked_add(number * 8)?)?,
        };
        Some((names::text(reader, version, key)?, value)).filter(|_| value != 0)
    };
    (0..table.count.min(MOST)).filter_map(entry).collect()
}

/// The names that the instances of a class share. They are among the last fields of it; where moves from version to version.
fn shared_names(ground: &Ground<'_, '_>, found: &Type) -> Option<Table> {
    let (reader, version) = (ground.reader, ground.types.version);
    let mut fields = (50..125).filter(|_| found.is_heap_type());
    fields.find_map(|field| {
        let keys = reader.word(found.address + field * 8).filter(|keys| plausible(*keys))?;
        ground.index.find_raw(keys)?;
        let mut head = [0; 16];
        let shared = reader.cached(keys, &mut head) && (version < Version(3, 11) || head[10] == 2);
        Table::read(reader, version, keys).filter(|_| shared)
    })
}
