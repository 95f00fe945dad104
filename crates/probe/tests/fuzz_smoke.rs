//! A few seconds of what `fuzz/` does for hours: each parser gets 200,000 mutated kernel files.

use lowtide_probe::parse;

type Parser = (&'static str, fn(&[u8]), &'static [u8]);

/// Keeps the compiler from leaving the work out.
fn eat<T>(value: T) {
    let _ = std::hint::black_box(value);
}

const ROUNDS: u32 = 200_000;

const PARSERS: &[Parser] = &[
    ("statm", |b| eat(parse::statm(b, 4096)), b"916 659 620 87 0 102 0\n"),
    ("stat", |b| eat((parse::stat(b), parse::comm(b))), b"17 (a (b) c) Z 1 17 17 0 -1 4 8 0 1 0 6 1 0 0 20 0 1 0 1799 3 6 18446744073709551615 1 2 3 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 2 3 4 5 6 7 9\n"),
    ("status", |b| eat(parse::status(b)), b"Name:\tpython\nUid:\t0\t0\nNStgid:\t9\t1\nVmSize:\t 36 kB\nRssAnon:\t 15 kB\nThreads:\t1\nSigCgt:\t0000000000000440\n"),
    ("smaps_rollup", |b| eat(parse::smaps_rollup(b)), b"Pss: 1182 kB\nPss_Anon: 156 kB\nShared_Clean: 1 kB\nShared_Dirty: 9 kB\nPrivate_Clean: 1 kB\nPrivate_Dirty: 3 kB\n"),
    ("limits", |b| eat(parse::address_space_limit(b)), b"Max address space         1048576      unlimited   bytes\n"),
    ("cmdline", |b| eat(parse::cmdline(b)), b"python\0-m\0train\0--lr\x001e-4\0"),
    ("environ", |b| eat(parse::environ(b, |_| true)), b"RANK=0\0MALLOC_ARENA_MAX=2\0=\0A\0"),
    ("mapping", |b| eat(parse::mapping(b)), b"7f0000000000-7f0000001000 rw-p 00000000 00:00 0 [heap]"),
    ("meminfo", |b| eat(parse::meminfo(b)), b"MemTotal: 24 kB\nMemAvailable: 23 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"),
    ("vmstat", |b| eat(parse::oom_kills(b)), b"pgfault 3\noom_kill 2\n"),
    ("pressure", |b| eat(parse::pressure(b)), b"some avg10=0.12 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 total=0\n"),
    ("membership", |b| eat(parse::membership(b)), b"4:memory:/a:b (deleted)\n0::/x\n"),
    ("mountinfo", |b| eat(parse::mountinfo(b, |_| true)), b"35 31 0:32 / /sys/fs/cgroup\\040x rw shared:1 - cgroup cgroup rw,memory\n"),
    ("cgroup_limit", |b| eat((parse::cgroup_limit(b), parse::single_number(b), parse::pid_max(b))), b"9223372036854771712\n"),
    ("cgroup_stat", |b| eat((parse::cgroup_stat_v1(b), parse::cgroup_stat_v2(b))), b"anon 1\nkernel_stack 3\nslab 4\ntotal_rss 5\nhierarchical_memory_limit 9223372036854771712\n"),
    ("memory_events", |b| eat((parse::memory_events_v1(b), parse::memory_events_v2(b))), b"low 0\nmax 4\noom_kill 1\n"),
    ("cgroup_pids", |b| eat(parse::cgroup_pids(b).count()), b"0\n1\n4294967296\n"),
];

/// A small generator that gives the same stream on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }

    /// Changes one thing about the bytes: a flip, a cut, a doubled piece, a run of digits, a dropped piece.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let at = self.roll(bytes.len() + 1);
        let until = (at + self.roll(12)).min(bytes.len());
        match self.roll(6) {
            0 if at < bytes.len() => bytes[at] = self.roll(256) as u8,
            1 => bytes.truncate(at),
            2 => bytes.extend_from_within(at..until),
            3 => drop(bytes.splice(at..at, [b'9'; 21])),
            4 => drop(bytes.drain(at..until)),
            _ => bytes.insert(at, b" \n\0():=-/\\,\t\xff"[self.roll(13)]),
        }
    }
}

fn run(parsers: &[Parser]) {
    for (name, parser, seed) in parsers {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        let mut bytes = seed.to_vec();
        for round in 0..ROUNDS {
            if round % 16 == 0 || bytes.len() > 600 {
                bytes.clear();
                bytes.extend_from_slice(seed);
            }
            dice.mutate(&mut bytes);
            let outcome = std::panic::catch_unwind(|| parser(&bytes));
            assert!(outcome.is_ok(), "{name} panicked in round {round} on {bytes:?}");
        }
    }
}

#[test]
fn parsers_of_process_files_survive_200_000_mutations_each() {
    run(&PARSERS[..8]);
}

#[test]
fn parsers_of_machine_and_cgroup_files_survive_200_000_mutations_each() {
    run(&PARSERS[8..]);
}
