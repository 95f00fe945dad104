#![no_main]
use libfuzzer_sys::fuzz_target;
use lowtide_probe::parse;

fuzz_target!(|bytes: &[u8]| {
    let _ = (parse::cgroup_stat_v1(bytes), parse::cgroup_stat_v2(bytes));
});
