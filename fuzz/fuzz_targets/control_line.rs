#![no_main]
use libfuzzer_sys::fuzz_target;
use lowtide_wire::LineReader;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = LineReader::default();
    if reader.feed(bytes).is_ok() {
        while let Some(message) = reader.next_ask() {
            let _ = message;
        }
    }
});
