//! A file that a framework wrote as a checkpoint: the first byte picks its name, the rest is the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;

const NAMES: [&str; 8] = ["a.pt", "a.ckpt", "a.keras", "a.safetensors", "a.h5", "a.json", "a.npz", "step-3"];

fuzz_target!(|data: &[u8]| {
    if let Some((first, bytes)) = data.split_first() {
        let name = NAMES[usize::from(*first) % NAMES.len()];
        let _ = lowtide_run::checkpoints::state_of_bytes(Path::new(name), bytes);
    }
});
