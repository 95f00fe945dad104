#![no_main]
use libfuzzer_sys::fuzz_target;
use lowtide_probe::parse;

fuzz_target!(|bytes: &[u8]| {
    let _ = (parse::memory_events_v1(bytes), parse::memory_events_v2(bytes));
});
