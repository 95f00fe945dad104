#![no_main]
use libfuzzer_sys::fuzz_target;
use lowtide_probe::parse;

fuzz_target!(|bytes: &[u8]| {
    let _ = parse::address_space_limit(bytes);
});
