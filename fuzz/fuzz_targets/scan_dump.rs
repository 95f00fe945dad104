#![no_main]
//! A whole dump from the fuzzer: the format, and a scan of whatever memory it describes.
use libfuzzer_sys::fuzz_target;
use lowtide_scan::{Dump, Facts, PythonFacts, Settings, scan};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first_chunk::<16>() else { return };
    let Ok(dump) = Dump::read_from(rest) else { return };
    let word = |at: usize| u64::from_le_bytes(first[at..at + 8].try_into().unwrap_or_default());
    let symbols = vec![("PyType_Type".to_owned(), word(8)), ("PyCode_Type".to_owned(), word(8).wrapping_add(1024))];
    let version = (3, 9 + first[0] % 6);
    let python = PythonFacts { version, found: String::new(), symbols, free_threaded: false };
    let facts = Facts { python: Some(python), ..Facts::default() };
    let _ = scan(&dump, &facts, &Settings::default());
});
