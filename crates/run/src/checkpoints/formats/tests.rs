//! Whole files, every way to cut them, and bytes that lie about their sizes.

use super::*;
use crate::checkpoints::{file, made};
use proptest::prelude::*;
use std::cell::Cell;
use std::path::Path;

type Check = fn(&[u8]) -> Result<(), Flaw>;

fn zip_of(bytes: &[u8]) -> Result<zip::Archive, Flaw> {
    zip::archive(bytes)
}

#[test]
fn a_whole_file_is_whole_and_no_part_of_it_is() {
    let torch = made::torch(&made::pickle("global_step", 40));
    let wide = made::wide_zip(&[("archive/data.pkl", b"\x80\x02}.")]);
    let tensors = made::safetensors(&[("a", 40), ("b", 24)]);
    let hdf5 = made::hdf5(4096);
    let json = br#"{"loss": [NaN, -Infinity, 1e-3], "text": "a \" } b", "global_step": 12}"#.to_vec();
    let checks: [(&str, Vec<u8>, Check); 5] = [
        ("zip", torch, |bytes| zip_of(bytes).map(drop)),
        ("wide zip", wide, |bytes| zip_of(bytes).map(drop)),
        ("safetensors", tensors, |bytes| safetensors::whole(bytes)),
        ("hdf5", hdf5, |bytes| hdf5::whole(bytes)),
        ("json", json, |bytes| json::whole(bytes)),
    ];
    for (name, bytes, check) in checks {
        assert_eq!(check(&bytes), Ok(()), "{name}");
        for length in 0..bytes.len() {
            assert!(check(&bytes[..length]).is_err(), "{name} of {length} of {} bytes", bytes.len());
        }
    }
}

#[test]
fn a_torch_file_tells_its_step_whatever_number_python_wrote() {
    for step in [0, 7, 255, 256, 65_535, 65_536, 2_147_483_647, 2_147_483_648, 1 << 40] {
        let bytes = made::torch(&made::pickle("global_step", step));
        let (at, length) = zip_of(&bytes).unwrap().pickle.unwrap();
        assert_eq!(pickle::told(&bytes[..], at, length).step, Some(step));
    }
    let other = made::pickle("learning_rate", 3);
    assert_eq!(pickle::told(&other[..], 0, other.len() as u64), pickle::Told::default());
}

#[test]
fn a_file_that_is_longer_than_it_says_is_wrong_not_cut() {
    let mut tensors = made::safetensors(&[("a", 8)]);
    tensors.push(0);
    assert_eq!(safetensors::whole(&tensors[..]), Err(Flaw::Wrong("is longer than its tensors".into())));
    assert!(matches!(json::whole(&b"{} {"[..]), Err(Flaw::Wrong(_))));
}

#[test]
fn sizes_that_lie_are_found_out_before_anything_is_read() {
    let mut header = u64::MAX.to_le_bytes().to_vec();
    header.extend(b"{}");
    assert!(matches!(safetensors::whole(&header[..]), Err(Flaw::Wrong(_))));
    let far = br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}}"#;
    let mut huge = (far.len() as u64).to_le_bytes().to_vec();
    huge.extend(far);
    assert!(matches!(safetensors::whole(&huge[..]), Err(Flaw::Wrong(_))));
    let mut zip = made::torch(b"\x80\x02}.");
    let at = zip.len() - 22;
    zip[at + 12..at + 16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(zip_of(&zip), Err(Flaw::Wrong(_))));
    zip[at + 12..at + 16].copy_from_slice(&1_u32.to_le_bytes());
    assert!(matches!(zip_of(&zip), Err(Flaw::Wrong(_))));
    let deep = vec![b'['; 100_000];
    assert!(matches!(json::whole(&deep[..]), Err(Flaw::Wrong(_))));
}

#[test]
fn only_the_outermost_object_is_asked_for_a_number() {
    let text = br#"{"log_history": [{"global_step": 3}], "x": {"global_step": 4}, "global_step": 5, "y": "global_step"}"#;
    assert_eq!(json::number_under(&text[..], "global_step"), Ok(Some(5)));
    assert_eq!(json::number_under(&br#"{"global_step": "many"}"#[..], "global_step"), Ok(None));
    assert_eq!(json::number_under(&br#"{"a": 1}"#[..], "global_step"), Ok(None));
}

/// A safetensors file with nothing but a long header: some bytes, one over and over, some bytes.
struct Long {
    before: &'static [u8],
    over_and_over: u8,
    after: &'static [u8],
}

impl Source for Long {
    fn size(&self) -> u64 {
        4_000_008
    }

    fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let head = [&(self.size() - 8).to_le_bytes(), self.before].concat();
        let tail = self.size() - self.after.len() as u64;
        buffer.fill(self.over_and_over);
        for (piece, begin) in [(&head[..], 0), (self.after, tail)] {
            for (byte, place) in piece.iter().zip(begin..) {
                if let Some(there) = place.checked_sub(at).and_then(|there| buffer.get_mut(there as usize)) {
                    *there = *byte;
                }
            }
        }
        Ok(())
    }
}

#[test]
fn a_header_of_many_megabytes_is_gone_through_in_little_memory() {
    let tensor = br#":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#;
    let senseless = |why: &str| Err(Flaw::Wrong(format!("has a header that {why}")));
    let headers = [
        (
            "a long name",
            Long { before: b"{\"", over_and_over: b'n', after: b"" },
            Err(Flaw::cut("ends inside its header")),
        ),
        ("spaces", Long { before: b"{\"a\"", over_and_over: b' ', after: tensor }, Ok(())),
        (
            "a long word",
            Long { before: b"{\"a\":", over_and_over: b'7', after: b"}" },
            senseless("makes no sense"),
        ),
        (
            "brackets",
            Long { before: b"{\"__metadata__\":", over_and_over: b'[', after: b"" },
            senseless("is nested too deeply"),
        ),
    ];
    for (name, long, answer) in headers {
        let (found, largest) = crate::steady::largest_block(|| safetensors::whole(&long));
        assert_eq!(found, answer, "{name}");
        assert!(largest <= LARGEST_PIECE, "{name}: {largest} bytes at once");
    }
}

#[test]
fn a_tensor_tells_where_it_lies_and_what_is_said_of_the_file_may_be_anything() {
    let file = |header: &str, bytes: usize| {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(vec![7; bytes]);
        safetensors::whole(&file[..])
    };
    let about = r#"{"__metadata__":{"data_offsets":"x","tags":"{\"a\": [1, {}]}","deep":[[{"b":1}]]}"#;
    assert_eq!(file(&format!(r#"{about},"w":{{"data_offsets":[0,4]}}}}   "#), 4), Ok(()));
    assert_eq!(file(&format!("{about}}}"), 0), Ok(()));
    for wrong in [
        r#"{"w":7}"#,
        r#"{"w":{}}"#,
        r#"{"w":{"data_offsets":[0]}}"#,
        r#"{"w":{"data_offsets":[0,1,2]}}"#,
        r#"{"w":{"data_offsets":[4,0]}}"#,
        r#"{"w":{"data_offsets":[0,-4]}}"#,
        r#"{"w":{"data_offsets":4}}"#,
    ] {
        assert_eq!(file(wrong, 4), Err(Flaw::Wrong("has a header that makes no sense".into())), "{wrong}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        check_all(&bytes);
    }

    #[test]
    fn no_damage_panics(which in 0..4_usize, at: usize, value: [u8; 8], length in 1..9_usize, cut: Option<usize>) {
        let mut bytes = match which {
            0 => made::torch(&made::pickle("step", 3)),
            1 => made::wide_zip(&[("a/data.pkl", b"\x80\x02}."), ("a/data/0", b"0123456789")]),
            2 => made::safetensors(&[("a", 40)]),
            _ => made::hdf5(200),
        };
        let at = at % bytes.len();
        let end = (at + length).min(bytes.len());
        bytes[at..end].copy_from_slice(&value[..end - at]);
        if let Some(cut) = cut {
            bytes.truncate(cut % (bytes.len() + 1));
        }
        check_all(&bytes);
    }
}

/// Bytes that claim to be as long as you like, and note how much of them was asked for at once and in all.
struct Claims<'a> {
    bytes: &'a [u8],
    size: u64,
    most: Cell<usize>,
    all: Cell<u64>,
}

impl<'a> Claims<'a> {
    fn new(bytes: &'a [u8], size: u64) -> Self {
        Self { bytes, size, most: Cell::new(0), all: Cell::new(0) }
    }
}

impl Source for Claims<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn fill(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.most.set(self.most.get().max(buffer.len()));
        self.all.set(self.all.get() + buffer.len() as u64);
        if at.checked_add(buffer.len() as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Half of the bytes stand at the beginning and half at the end; what lies between is nothing.
        buffer.fill(0);
        let (head, tail) = self.bytes.split_at(self.bytes.len() / 2);
        for (piece, begin) in [(head, 0), (tail, self.size - tail.len() as u64)] {
            let from = at.max(begin);
            let until = (at + buffer.len() as u64).min(begin + piece.len() as u64);
            if from < until {
                let kept = &piece[(from - begin) as usize..(until - begin) as usize];
                buffer[(from - at) as usize..(until - at) as usize].copy_from_slice(kept);
            }
        }
        Ok(())
    }
}

/// A window over a zip's directory is the largest piece.
const LARGEST_PIECE: usize = 256 * 1024;

proptest! {
    // Each looks through a quarter of a mebibyte several times.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_file_that_claims_any_size_is_read_in_pieces_that_stay_small(
        which in 0..5_usize, at: usize, value: [u8; 8], size in 0_u64..1 << 45,
    ) {
        let mut bytes = match which {
            0 => made::torch(&made::pickle("step", 3)),
            1 => made::wide_zip(&[("a/data.pkl", b"\x80\x02}."), ("a/data/0", b"0123456789")]),
            2 => made::safetensors(&[("a", 40)]),
            3 => made::hdf5(200),
            _ => made::pickle("step", 3),
        };
        let at = at % bytes.len();
        let end = (at + value.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&value[..end - at]);
        for name in ["a.pt", "a.safetensors", "a.h5"] {
            let claims = Claims::new(&bytes, size.max(bytes.len() as u64));
            let _ = file::said_by(&claims, Path::new(name));
            prop_assert!(claims.most.get() <= LARGEST_PIECE, "{name}: {} bytes at once", claims.most.get());
            prop_assert!(claims.all.get() <= 8 * LARGEST_PIECE as u64, "{name}: {} bytes in all", claims.all.get());
        }
    }
}

fn check_all(bytes: &[u8]) {
    for name in ["a.pt", "a.ckpt", "a.keras", "a.safetensors", "a.h5", "a.json", "step-3"] {
        let _ = crate::checkpoints::state_of_bytes(Path::new(name), bytes);
    }
    if let Ok(archive) = zip::archive(bytes)
        && let Some((at, length)) = archive.pickle
    {
        assert!(at + length <= bytes.len() as u64);
        let _ = pickle::told(bytes, at, length);
    }
    let _ = (safetensors::whole(bytes), hdf5::whole(bytes), json::number_under(bytes, "a"));
    let _ = (pickle::whole(bytes), pickle::told(bytes, 0, bytes.len() as u64));
}
