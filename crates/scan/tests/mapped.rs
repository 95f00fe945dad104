//! Memory that an object mapped for itself is its own, private or shared.

#![allow(clippy::unwrap_used, reason = "test code")]

mod live;
mod targets;

use lowtide_scan::Kind;
use targets::{MALLINFO, Target, near, pythons, random_name, row};

#[test]
fn memory_that_an_object_mapped_is_its_own_in_every_python() {
    for python in pythons() {
        let name = random_name("held");
        // One after the other melts into one mapping; the last is not written.
        let program = format!(
            r#"{MALLINFO}
import mmap
private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
{name} = [mmap.mmap(-1, (3 << 20) + 4096 * i, flags=private) for i in range(7)]
for m in {name}[:6]: m.write(b"x" * len(m))
small = mmap.mmap(-1, 1 << 20); small.write(b"y" * (1 << 20))
say(bytes=sum(map(len, {name}[:6])), rest=len({name}[6])); wait()
"#
        );
        let target = Target::start(&python, &program);
        let scan = target.scan();
        let (place, found) = (python.display(), row(&scan, "mmap"));
        let (bytes, rest) = ["bytes", "rest"].map(|key| target.truth[key].as_u64().unwrap()).into();
        assert!(near(found.owned_bytes.0, bytes + (1 << 20), 2), "{place}: {} {bytes}", found.owned_bytes);
        assert!(near(found.absent_bytes.0, rest, 2), "{place}: {} of {rest}", found.absent_bytes);
        let held = scan.holders.iter().find(|held| held.name == "mmap").unwrap();
        let wanted = format!("mmap <- list of 7 <- global {name} of module __main__");
        assert!(held.text.ends_with(&wanted), "{place}: {:?} {:?}", held.text, held.doubt);
        let other = scan.kinds.iter().find(|part| part.kind == Kind::OtherAnonymous).unwrap();
        assert!(other.bytes.0 < 1 << 20, "{place}: {}", other.bytes);
        assert_eq!(scan.kinds.iter().map(|part| part.bytes.0).sum::<u64>(), scan.rss_bytes.0, "{place}");
    }
}
