//! A process that never holds still: every scan is right, or says where it is not.

mod live;
mod targets;

use lowtide_scan::Settings;
use targets::{Target, pythons, random_name};

const SCANS: usize = 200;
const PLANTED: u64 = 5_003;
const BUFFERS: u64 = 6_000;
const BUFFER_BYTES: u64 = 3_000;

#[test]
fn two_hundred_scans_of_a_churning_process_have_no_silent_error() {
    let python = pythons().pop().expect("a Python");
    let name = random_name("Planted");
    let program = format!(
        r#"
import json, random, threading
class {name}:
    def __init__(s, i): s.i = i
keep = [{name}(i) for i in range({PLANTED})]
buffers = [bytearray({BUFFER_BYTES}) for _ in range({BUFFERS})]
def churn():
    pile = []
    while True:
        pile.append(bytearray(random.randrange(600, 9000)))
        pile.append({{"k": [object()] * random.randrange(1, 80)}})
        if len(pile) > 400: del pile[::2]
threads = [threading.Thread(target=churn, daemon=True) for _ in range(2)]
[t.start() for t in threads]
print(json.dumps({{}}), flush=True)
[t.join() for t in threads]
"#
    );
    let target = Target::start(&python, &program);
    let settings = Settings { climbs: 0, ..Settings::default() };
    let (mut doubted, mut retried) = (0, 0);
    for number in 0..SCANS {
        let scan = target.scan_with(&settings);
        let doubt = scan.coverage.iter().any(|line| !line.doubt.is_empty());
        doubted += usize::from(doubt);
        retried += scan.coverage.iter().map(|line| line.retries).sum::<u64>();
        let count = scan.types.iter().find(|row| row.name == name).map_or(0, |row| row.count);
        let buffers =
            scan.types.iter().find(|row| row.name == "bytearray").map_or(0, |row| row.owned_bytes.0);
        let (least, most) = (BUFFERS * BUFFER_BYTES, BUFFERS * (BUFFER_BYTES + 16) + (30 << 20));
        let right = count == PLANTED && (least..most).contains(&buffers);
        assert!(
            right || doubt,
            "scan {number}: {count} planted, {buffers} bytes in buffers, no doubt: {:?}",
            scan.coverage
        );
    }
    println!("{doubted} of {SCANS} scans in doubt, {retried} places read again");
    // On idle cores the ends of both thread arenas move all the time: a fifth to nearly a half say so.
    assert!(doubted < SCANS * 3 / 4, "{doubted} of {SCANS} scans could not say");
}

#[test]
fn a_thread_heap_that_has_grown_since_the_mappings_were_read_is_walked() {
    for python in pythons() {
        let program = r"
import json, sys, threading
kept = []
def work():
    for count in (100, 5):
        kept.extend(bytearray(100_000) for _ in range(count))
        print(json.dumps({}), flush=True)
        sys.stdin.readline()
thread = threading.Thread(target=work, daemon=True)
thread.start()
thread.join()
";
        let mut target = Target::start(&python, program);
        let (before, facts) = (live::Live::open(target.pid()), target.facts());
        target.step();
        let scan = lowtide_scan::scan(&before, &facts, &Settings { climbs: 0, ..Settings::default() });
        let owned = targets::row(&scan, "bytearray").owned_bytes.0;
        // The hundred of before; of those that came since only what lies in the old mapping.
        assert!(
            (9_800_000..10_400_000).contains(&owned),
            "{}: {owned} bytes, {:?}",
            python.display(),
            scan.coverage
        );
    }
}

#[test]
fn a_main_heap_that_has_grown_since_the_mappings_were_read_is_walked() {
    for python in pythons() {
        // One arena, and no block has a mapping of its own. The heap's end was in use and is free, so its pages are there.
        let program = r"
import ctypes, json, sys
libc = ctypes.CDLL(None)
for name, value in ((-1, 1 << 30), (-2, 0), (-3, 1 << 30), (-8, 1)):
    libc.mallopt(name, value)
kept, zeros = [bytearray() for _ in range(120)], bytes(100_000)
for one in kept[:105]:
    one.extend(zeros)
for one in kept[100:]:
    one.clear()
for count in (100, 120):
    for one in kept[100:count]:
        one.extend(zeros)
    print(json.dumps({}), flush=True)
    sys.stdin.readline()
";
        let mut target = Target::start(&python, program);
        let (before, facts) = (live::Live::open(target.pid()), target.facts());
        target.step();
        let scan = lowtide_scan::scan(&before, &facts, &Settings { climbs: 0, ..Settings::default() });
        let owned = targets::row(&scan, "bytearray").owned_bytes.0;
        let heap = scan.coverage.iter().find(|line| line.what == "main heap").unwrap();
        assert_eq!(heap.doubt, "", "{}: {heap:?}", python.display());
        // The hundred of before; of those that came since what lies in the old mapping.
        assert!((10_300_000..10_700_000).contains(&owned), "{}: {owned} bytes, {heap:?}", python.display());
    }
}
