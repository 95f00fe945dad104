//! Memory that was allocated and never written is not held: it is told apart.

#![allow(clippy::unwrap_used, reason = "test code")]

mod live;
mod targets;

use targets::{MALLINFO, Target, near, pythons, random_name, row};

#[test]
fn what_was_never_written_is_told_apart_from_what_is_resident() {
    for python in pythons() {
        let class = random_name("Keeper");
        // `bytes` of zeroes are untouched, those of other bytes are not.
        let program = format!(
            r#"{MALLINFO}
class {class}: pass
keeper = {class}()
keeper.results = [bytes(24 << 20) for _ in range(3)] + [b"x" * (5 << 20)]
say(); wait()
"#
        );
        let target = Target::start(&python, &program);
        let scan = target.scan();
        let (place, found) = (python.display(), row(&scan, "bytes"));
        assert!(near(found.own_bytes.0, 5 << 20, 10), "{place}: {found:?}");
        assert!(near(found.absent_bytes.0, 72 << 20, 2), "{place}: {found:?}");
        let suspect = scan.suspects.iter().find(|suspect| suspect.holder == class).unwrap();
        assert_eq!(suspect.attribute, "results", "{place}");
        assert!(near(suspect.bytes.0, 5 << 20, 2), "{place}: {suspect:?}");
        assert!(near(suspect.absent_bytes.0, 72 << 20, 2), "{place}: {suspect:?}");
    }
}
