//! Damaged memory of a real Python: a scan may find less, but never panics, loops or grows without bound.

mod live;
mod targets;

use live::Live;
use lowtide_scan::{Dump, Memory, Settings, scan};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use targets::{Target, pythons, random_name};

const PROGRAM: &str = "
import json, sys, threading
class NAME:
    def __init__(s, i): s.i = i; s.load = bytearray(900)
NAME_keep = [NAME(i) for i in range(800)]
def work(): NAME_keep.extend([bytearray(2000) for _ in range(200)])
t = threading.Thread(target=work); t.start(); t.join()
print(json.dumps({}), flush=True); sys.stdin.readline()
";

/// What a damaged word becomes.
#[derive(Clone, Debug)]
enum Damage {
    Random(u64),
    /// A word from elsewhere: pointers that lead to real but wrong places, and loops.
    Copy(usize),
    Small(u8),
    Ones,
}

fn damage() -> impl Strategy<Value = (usize, Damage)> {
    let what = prop_oneof![
        any::<u64>().prop_map(Damage::Random),
        any::<usize>().prop_map(Damage::Copy),
        any::<u8>().prop_map(Damage::Small),
        Just(Damage::Ones),
    ];
    (any::<usize>(), what)
}

fn apply(bytes: &mut [u8], changes: &[(usize, Damage)]) {
    let words = bytes.len() / 8;
    for (place, what) in changes {
        let at = place % words * 8;
        let value = match what {
            Damage::Random(value) => value.to_le_bytes(),
            Damage::Copy(from) => {
                let from = from % words * 8;
                bytes[from..from + 8].try_into().unwrap_or_default()
            }
            Damage::Small(value) => u64::from(*value).to_le_bytes(),
            Damage::Ones => [0xff; 8],
        };
        bytes[at..at + 8].copy_from_slice(&value);
    }
}

#[test]
fn damaged_memory_of_any_python_is_scanned_to_an_end() {
    for python in pythons() {
        let target = Target::start(&python, &PROGRAM.replace("NAME", &random_name("N")));
        let dump = Dump::of(&Live::open(target.pid()));
        let facts = target.facts();
        let resident: u64 = dump
            .mappings()
            .iter()
            .flat_map(|map| dump.present(map.start, map.end))
            .map(|(start, end)| end - start)
            .sum();
        let mut runner = TestRunner::new(Config {
            cases: 12,
            max_shrink_iters: 0,
            failure_persistence: None,
            ..Config::default()
        });
        let changes = proptest::collection::vec(damage(), 1..40_000);
        let outcome = runner.run(&changes, |changes| {
            let mut damaged = dump.clone();
            apply(damaged.bytes_mut(), &changes);
            let found = scan(&damaged, &facts, &Settings::default());
            let sum: u64 = found.kinds.iter().map(|part| part.bytes.0).sum();
            prop_assert_eq!(sum, found.rss_bytes.0);
            prop_assert!(found.cost.own_bytes.0 < resident / 2 + (16 << 20), "{:?}", found.cost);
            prop_assert!(found.cost.read_bytes.0 < resident * 40, "{:?}", found.cost);
            Ok(())
        });
        // Not the damage itself: it is a megabyte of text.
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, changes)) => {
                panic!("{why}; {} words of {python:?} were damaged", changes.len())
            }
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
    }
}
