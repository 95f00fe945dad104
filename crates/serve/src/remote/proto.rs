//! The bytes of a remote write request: protobuf by hand (four small messages), packed by snappy.

use super::history::Series;

/// A request of some series, ready to be sent.
pub(super) fn request(series: &[Series]) -> Vec<u8> {
    let mut out = Vec::new();
    for one in series {
        field(&mut out, 1, &time_series(one));
    }
    // Packing fails only above 4 GiB, which a batch never is.
    snap::raw::Encoder::new().compress_vec(&out).unwrap_or_default()
}

fn time_series(series: &Series) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in &series.labels {
        let mut label = Vec::new();
        field(&mut label, 1, name.as_bytes());
        field(&mut label, 2, value.as_bytes());
        field(&mut out, 1, &label);
    }
    for (time, value) in &series.samples {
        let mut sample = vec![1 << 3 | 1];
        sample.extend(value.to_le_bytes());
        sample.push(2 << 3);
        varint(&mut sample, *time as u64);
        field(&mut out, 2, &sample);
    }
    out
}

/// A field with a length before it.
fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_protocol() {
        let one = Series { labels: vec![("a".to_owned(), "b".to_owned())], samples: vec![(300, 1.0)] };
        let plain = snap::raw::Decoder::new().decompress_vec(&request(&[one])).unwrap();
        let sample = [0x12, 12, 0x09, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0x10, 0xAC, 0x02];
        let label = [0x0A, 6, 0x0A, 1, b'a', 0x12, 1, b'b'];
        assert_eq!(plain, [&[0x0A, 22][..], &label, &sample].concat());
    }
}
