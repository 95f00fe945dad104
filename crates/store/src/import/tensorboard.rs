//! TensorBoard event files, read by hand: records framed by length and masked CRC-32C, each a small protobuf.
//!
//! Only scalars are looked at. A file that is still being written ends in half a record: what came before counts.

use super::memory_names::{Meaning, is_named, meaning};
use super::numbers;
use super::{Attempt, Hints, Missing};
use lowtide_model::{Axis, Curve, Metric};
use std::collections::BTreeMap;

/// A scalar event is under a hundred bytes; graphs may take megabytes and are skipped all the same.
const LONGEST_RECORD: u64 = 256 << 20;

#[derive(Debug, Default)]
struct Points {
    step: Vec<f64>,
    wall: Vec<f64>,
    value: Vec<f64>,
}

pub(crate) fn read(bytes: &[u8], hints: &Hints) -> Attempt {
    let mut scalars: BTreeMap<String, Points> = BTreeMap::new();
    let mut rest = bytes;
    let mut records = 0_u64;
    while let Some((record, after)) = next_record(rest) {
        event(record, &mut scalars);
        rest = after;
        records += 1;
    }
    if records == 0 {
        return Err("no record with a right checksum".into());
    }
    let tags: Vec<String> = scalars.keys().cloned().collect();
    let wanted = |tag: &str| match &hints.y {
        Some(asked) => is_named(tag, asked).then(|| meaning(tag).unwrap_or_else(unknown)),
        None => meaning(tag),
    };
    let mut found: Vec<(Meaning, Curve)> = scalars
        .into_iter()
        .filter_map(|(tag, points)| {
            let meant = wanted(&tag)?;
            Some((meant.clone(), curve(tag, points, &meant, hints)))
        })
        .collect();
    found.sort_by_key(|(meant, _)| std::cmp::Reverse(meant.rank));
    if found.is_empty() {
        let some: Vec<&str> = tags.iter().map(String::as_str).take(20).collect();
        let names = some.join(", ");
        return Err(Missing::Wanted(format!(
            "no scalar that is named after memory among: {names}; name one as y"
        )));
    }
    Ok(found.into_iter().map(|(_, curve)| curve).collect())
}

fn unknown() -> Meaning {
    Meaning { metric: Metric::Rss, rank: 0, unit: None }
}

fn curve(tag: String, points: Points, meant: &Meaning, hints: &Hints) -> Curve {
    let asked = hints.unit.as_deref().and_then(numbers::unit);
    let unit = asked.or(meant.unit).unwrap_or_else(|| numbers::guess_of_process(&points.value));
    let how = if asked.is_some() {
        "as asked"
    } else if meant.unit.is_some() {
        "by its name"
    } else {
        numbers::how_guessed(unit)
    };
    let mut notes = vec![format!("`{tag}` taken as {}, {how}", unit.name)];
    let steps_move = points.step.windows(2).any(|pair| pair[0] < pair[1]);
    let by_time = hints.x.as_deref().is_some_and(|x| is_named(x, "wall_time") || is_named(x, "seconds"));
    let (axis, x) = if steps_move && !by_time {
        (Axis::Step, points.step)
    } else {
        notes.push("x is the wall time of the events".to_owned());
        let start = points.wall.first().copied().unwrap_or(0.0);
        (Axis::Seconds, points.wall.into_iter().map(|wall| wall - start).collect())
    };
    let y = points.value.into_iter().map(|value| value * unit.bytes).collect();
    Curve { name: tag, axis, x, y, metric: meant.metric.clone(), notes, ..Curve::default() }
}

fn next_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(8)?;
    let (check, rest) = rest.split_at_checked(4)?;
    let length = u64::from_le_bytes(head.try_into().ok()?);
    if masked_crc(head) != u32::from_le_bytes(check.try_into().ok()?) || length > LONGEST_RECORD {
        return None;
    }
    let (record, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let (check, rest) = rest.split_at_checked(4)?;
    (masked_crc(record) == u32::from_le_bytes(check.try_into().ok()?)).then_some((record, rest))
}

/// `Event`: 1 wall time, 2 step, 5 summary.
fn event(record: &[u8], scalars: &mut BTreeMap<String, Points>) {
    let (mut wall, mut step, mut summary) = (0.0, 0.0, None);
    for (field, value) in Fields(record) {
        match (field, value) {
            (1, Field::Fixed64(bits)) => wall = f64::from_bits(bits),
            (2, Field::Varint(number)) => step = number.cast_signed() as f64,
            (5, Field::Bytes(bytes)) => summary = Some(bytes),
            _ => {}
        }
    }
    for (field, value) in Fields(summary.unwrap_or_default()) {
        if let (1, Field::Bytes(bytes)) = (field, value)
            && let Some((tag, value)) = scalar(bytes)
        {
            let points = scalars.entry(tag).or_default();
            points.step.push(step);
            points.wall.push(wall);
            points.value.push(value);
        }
    }
}

/// `Summary.Value`: 1 tag, 2 simple value, 8 tensor.
fn scalar(bytes: &[u8]) -> Option<(String, f64)> {
    let (mut tag, mut number) = (None, None);
    for (field, value) in Fields(bytes) {
        match (field, value) {
            (1, Field::Bytes(text)) => tag = Some(String::from_utf8_lossy(text).into_owned()),
            (2, Field::Fixed32(bits)) => number = Some(f64::from(f32::from_bits(bits))),
            (8, Field::Bytes(tensor)) => number = number.or_else(|| tensor_value(tensor)),
            _ => {}
        }
    }
    Some((tag?, number?))
}

/// `TensorProto` of one element: 1 dtype, 4 raw content, 5 floats, 6 doubles, 10 int64s.
fn tensor_value(bytes: &[u8]) -> Option<f64> {
    let mut kind = 0;
    for (field, value) in Fields(bytes) {
        match (field, value) {
            (1, Field::Varint(number)) => kind = number,
            (4 | 5, Field::Bytes(raw)) if kind == 1 && raw.len() == 4 => {
                return Some(f64::from(f32::from_le_bytes(raw.try_into().ok()?)));
            }
            (4 | 6, Field::Bytes(raw)) if kind == 2 && raw.len() == 8 => {
                return Some(f64::from_le_bytes(raw.try_into().ok()?));
            }
            (4, Field::Bytes(raw)) if kind == 9 && raw.len() == 8 => {
                return Some(i64::from_le_bytes(raw.try_into().ok()?) as f64);
            }
            (5, Field::Fixed32(bits)) => return Some(f64::from(f32::from_bits(bits))),
            (6, Field::Fixed64(bits)) => return Some(f64::from_bits(bits)),
            (10, Field::Varint(number)) => return Some(number.cast_signed() as f64),
            _ => {}
        }
    }
    None
}

enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// The fields of a protobuf message; ends at the first thing that is none.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Field<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(usize::try_from(length).ok()?)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7F).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

/// The checksum as record files have it: CRC-32C, rotated, plus a constant.
pub(crate) fn masked_crc(bytes: &[u8]) -> u32 {
    let crc = !bytes.iter().fold(!0_u32, |crc, byte| CRC_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8));
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0_u32; 256];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_crc_32c() {
        // The check value of CRC-32C over "123456789" is e3069283.
        let plain = masked_crc(b"123456789").wrapping_sub(0xA282_EAD8).rotate_left(15);
        assert_eq!(plain, 0xE306_9283);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = read(&bytes, &Hints::default());
            event(&bytes, &mut BTreeMap::new());
            let _ = tensor_value(&bytes);
        }
    }
}
