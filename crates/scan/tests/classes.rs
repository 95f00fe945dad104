//! A class that is made again and again is one row, with how many classes that are.

#![allow(clippy::unwrap_used, reason = "test code")]

mod live;
mod targets;

use lowtide_scan::{Settings, diff};
use targets::{MALLINFO, Target, pythons, random_name, row};

#[test]
fn classes_of_one_name_are_told_together_and_counted() {
    for python in pythons() {
        let (named, local, keep) = (random_name("Named"), random_name("Local"), random_name("keep"));
        let program = format!(
            r#"{MALLINFO}
import collections
{keep} = []
def again():
    class {local}:
        def __init__(s, i): s.one = [i]
    made = collections.namedtuple("{named}", "x y")
    {keep}.append([made(i, i) for i in range(40)] + [{local}(i) for i in range(60)])
for _ in range(300): again()
gc.collect(); say(); wait()
for _ in range(200): again()
gc.collect(); say(); wait()
"#
        );
        let mut target = Target::start(&python, &program);
        let before = target.scan();
        target.step();
        let settings = Settings { before: Some(before.types.clone()), ..Settings::default() };
        let after = target.scan_with(&settings);
        let grown = diff(&before, &after);
        let place = python.display();
        for (name, each) in [(&named, 40), (&local, 60)] {
            let rows: Vec<_> = before.types.iter().filter(|row| row.name == *name).collect();
            assert_eq!(rows.len(), 1, "{place}: {rows:?}");
            assert_eq!((rows[0].count, rows[0].classes), (300 * each, 300), "{place}");
            let more = grown.types.iter().find(|row| row.name == *name).unwrap();
            assert_eq!((more.count, more.classes), (200 * each as i64, 200), "{place}");
        }
        let held = grown.holders.iter().find(|held| held.name == local).unwrap();
        assert!(held.text.ends_with(&format!("global {keep} of module __main__")), "{place}: {held:?}");
        assert_eq!(row(&before, "list").classes, 1, "{place}");
    }
}

#[test]
fn more_classes_than_a_scan_can_tell_apart_are_counted_where_they_have_one_name() {
    let python = pythons().pop().unwrap();
    let name = random_name("Again");
    let program = format!(
        r#"{MALLINFO}
keep = []
def again():
    class {name}: __slots__ = ("one", "two")
    keep.append([{name}() for i in range(3)])
for _ in range(34_001): again()
gc.collect(); say(); wait()
"#
    );
    let target = Target::start(&python, &program);
    let scan = target.scan_with(&Settings { climbs: 0, suspects: false, ..Settings::default() });
    let found = row(&scan, &name);
    assert_eq!((found.count, found.classes), (3 * 34_001, 34_001));
    assert!(scan.coverage.iter().all(|line| line.what != "types"), "{:?}", scan.coverage);
}
