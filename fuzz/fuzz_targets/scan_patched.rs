#![no_main]
//! A real process's memory with words of it changed by the fuzzer. `LOWTIDE_SCAN_BASE` names a dump written by
//! `cargo run -p lowtide-scan --example scan_pid -- PID FILE`.
use libfuzzer_sys::fuzz_target;
use lowtide_scan::{Dump, Facts, Settings, scan};
use std::sync::OnceLock;

static BASE: OnceLock<Dump> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let base = BASE.get_or_init(|| {
        let path = std::env::var_os("LOWTIDE_SCAN_BASE").expect("LOWTIDE_SCAN_BASE names a dump");
        Dump::read_from(&std::fs::read(path).expect("the dump can be read")).expect("it is a dump")
    });
    let mut dump = base.clone();
    let memory = dump.bytes_mut();
    let words = memory.len() / 8;
    for change in bytes.chunks_exact(13) {
        // Where, what, and how often on from there.
        let at = u32::from_le_bytes([change[0], change[1], change[2], change[3]]) as usize % words * 8;
        let copied = u32::from_le_bytes([change[4], change[5], change[6], change[7]]) as usize % words * 8;
        for repeat in 0..=usize::from(change[12] & 15) {
            let to = (at + repeat * usize::from(change[12] >> 4) * 8) % (words * 8);
            if change[12] & 1 == 0 {
                memory[to..to + 8].copy_from_slice(&change[4..12]);
            } else {
                memory.copy_within(copied..copied + 8, to);
            }
        }
    }
    let _ = scan(&dump, &Facts::default(), &Settings::default());
});
