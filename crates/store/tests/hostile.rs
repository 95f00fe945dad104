//! Files that are torn, foreign or made to harm: an error or part of the data, never a panic.

#![allow(clippy::unwrap_used, reason = "what cannot be set up should stop the test")]

mod made;

use lowtide_model::Recording;
use lowtide_store::{StoreError, Writer, open};
use made::{everything, finished, meta};
use proptest::prelude::*;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

fn good(folder: &Path) -> PathBuf {
    let path = folder.join("good.tide");
    let writer = Writer::create(&path, meta()).unwrap();
    made::push_all(&writer, &everything());
    (0..2000).for_each(|tick| writer.push(lowtide_store::Entry::Sample(made::sample(10, tick, tick * 4096))));
    writer.finish(finished()).unwrap();
    path
}

/// Everything a reader may do with a file.
fn read(path: &Path) -> Result<Recording, StoreError> {
    let mut reader = open(path)?;
    reader.meta()?;
    reader.recording()
}

#[test]
fn a_file_cut_at_any_place_gives_an_error_or_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(good(folder.path())).unwrap();
    let (mut errors, mut parts) = (0, 0);
    for (number, end) in
        (0..bytes.len()).step_by(701).chain([1, 15, 16, 17, 99, 100, 101, 1023, 1025]).enumerate()
    {
        let path = folder.path().join(format!("cut-{number}.tide"));
        std::fs::write(&path, &bytes[..end]).unwrap();
        match read(&path) {
            Ok(part) => {
                assert!(part.samples.len() <= 2003);
                parts += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                errors += 1;
            }
        }
    }
    assert!(errors > 10, "{errors} errors, {parts} parts");
}

/// A log torn by a power cut or a bad copy gives the rows before the tear.
#[test]
fn a_torn_log_costs_its_tail_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.tide");
    let dead = lowtide_model::ProcKey { pid: 1, start_ticks: u64::MAX >> 1 };
    let writer = Writer::create(&path, lowtide_model::Meta { recorder: Some(dead), ..meta() }).unwrap();
    let mut tick = 0;
    for _ in 0..3 {
        for _ in 0..50 {
            tick += 1;
            writer.push(lowtide_store::Entry::Sample(made::sample(10, tick, 4096)));
        }
        writer.announce(lowtide_model::Tick(tick));
        writer.flush_soon();
        made::wait_for(|| writer.health().durable == Some(lowtide_model::Tick(tick)));
    }
    let (file, log) =
        (std::fs::read(&path).unwrap(), std::fs::read(folder.path().join("live.tide-wal")).unwrap());
    let mut seen = std::collections::BTreeSet::new();
    for end in (0..=log.len()).step_by(509).chain([log.len()]) {
        let torn = tempfile::tempdir().unwrap();
        let path = torn.path().join("torn.tide");
        std::fs::write(&path, &file).unwrap();
        std::fs::write(torn.path().join("torn.tide-wal"), &log[..end]).unwrap();
        let part = read(&path).unwrap();
        assert!(
            part.samples.iter().map(|row| row.tick.0).eq(1..=part.samples.len() as u64),
            "whole commits only"
        );
        seen.insert(part.samples.len());
        assert_eq!(std::fs::read_dir(torn.path()).unwrap().count(), 1, "folded");
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 50, 100, 150]);
}

#[test]
fn damage_in_the_middle_costs_rows_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = good(folder.path());
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 1024 * 1024;
    bytes[middle..middle + 4096].fill(0xA5);
    std::fs::write(&path, bytes).unwrap();
    let part = read(&path).unwrap();
    assert!(part.samples.len() < 2003);
    assert!(
        part.events.iter().any(|event| event.text.contains("could not be read to its end")),
        "{:?}",
        part.events
    );
    assert_eq!(part.processes.len(), 3);
}

#[test]
fn a_newer_format_is_refused_with_both_versions_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = good(folder.path());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 7, known: 1, .. }));
    let text = error.to_string();
    assert!(
        text.contains("format 7") && text.contains("format 1") && text.contains("newer lowtide"),
        "{text}"
    );
}

#[test]
fn a_database_of_another_program_is_not_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.tide");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE sample (id INTEGER)").unwrap();
    assert!(matches!(open(&path), Err(StoreError::NotARecording { .. })));
}

#[test]
fn a_missing_table_costs_its_rows_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = good(folder.path());
    let tables = [
        "sharing",
        "cgroup_path",
        "gpu_device",
        "host",
        "mark",
        "event",
        "limit_held",
        "progress",
        "process",
        "sample",
    ];
    for table in tables {
        Connection::open(&path).unwrap().execute_batch(&format!("DROP TABLE {table}")).unwrap();
        let part = read(&path).unwrap();
        assert_eq!(part.meta.name, "123", "without {table}");
        assert_eq!(
            part.host.is_empty(),
            tables.iter().position(|t| *t == "host") <= tables.iter().position(|t| *t == table)
        );
    }
    Connection::open(&path).unwrap().execute_batch("DROP TABLE meta").unwrap();
    assert!(matches!(read(&path), Err(StoreError::NotARecording { .. })));
}

/// A view may hold an endless query, a trigger may write, a generated column may compute for ever: none of them runs.
#[test]
fn views_triggers_and_computed_columns_do_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = good(folder.path());
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "DROP VIEW sample_view; DROP TABLE host; DROP TABLE event;
             CREATE VIEW host AS WITH RECURSIVE n(t_ns) AS (SELECT 1 UNION ALL SELECT t_ns + 1 FROM n) SELECT * FROM n;
             CREATE TABLE event (id INTEGER PRIMARY KEY, t_ns INTEGER, kind TEXT,
               text TEXT GENERATED ALWAYS AS (hex(zeroblob(20000000))) VIRTUAL);
             INSERT INTO event (t_ns, kind) VALUES (3, 'note');
             CREATE TRIGGER evil AFTER UPDATE ON progress BEGIN DELETE FROM sample; END;
             ALTER TABLE sample ADD COLUMN extra TEXT;",
        )
        .unwrap();
    let part = read(&path).unwrap();
    assert_eq!(part.samples.len(), 2003);
    assert!(part.host.is_empty());
    let computed = part.events.iter().find(|event| event.tick.0 == 3).unwrap();
    assert_eq!(computed.text, "");
}

#[test]
fn a_virtual_table_in_place_of_a_table_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = good(folder.path());
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("DROP TABLE mark; CREATE VIRTUAL TABLE mark USING fts5(t_ns, kind)").unwrap();
    drop(conn);
    assert!(read(&path).unwrap().marks.is_empty());
}

fn any_value() -> impl Strategy<Value = rusqlite::types::Value> {
    use rusqlite::types::Value;
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        Just(Value::Integer(i64::MIN)),
        Just(Value::Integer(i64::MAX)),
        any::<f64>().prop_map(Value::Real),
        ".{0,20}".prop_map(Value::Text),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Value::Blob),
    ]
}

const COLUMNS: &[(&str, &str)] = &[
    ("process", "born_ns"),
    ("process", "died_ns"),
    ("process", "exit"),
    ("process", "exit_number"),
    ("process", "argv"),
    ("process", "env"),
    ("process", "execed"),
    ("sample", "t_ns"),
    ("sample", "process_id"),
    ("sample", "ticks"),
    ("sample", "rss_bytes"),
    ("sample", "rss_min_bytes"),
    ("sample", "anon_max_bytes"),
    ("sample", "threads"),
    ("sharing", "pss_bytes"),
    ("cgroup", "limited"),
    ("cgroup", "limit_bytes"),
    ("cgroup", "some_avg10_percent"),
    ("cgroup", "cgroup_id"),
    ("cgroup_path", "path"),
    ("cgroup_path", "version"),
    ("host", "available_bytes"),
    ("gpu", "device_id"),
    ("gpu", "process_id"),
    ("gpu_device", "uuid"),
    ("mark", "kind"),
    ("mark", "number"),
    ("mark", "rank"),
    ("event", "kind"),
    ("event", "text"),
    ("limit_held", "kind"),
    ("limit_held", "limit_bytes"),
    ("progress", "announced_ns"),
    ("progress", "written_unix_ns"),
    ("meta", "value"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tide");
        std::fs::write(&path, bytes).unwrap();
        prop_assert!(read(&path).is_err());
    }

    #[test]
    fn wrong_values_in_columns_are_left_out(changes in prop::collection::vec((0..COLUMNS.len(), any_value()), 1..8)) {
        let folder = tempfile::tempdir().unwrap();
        let path = good(folder.path());
        let conn = Connection::open(&path).unwrap();
        for (column, value) in changes {
            let (table, column) = COLUMNS[column];
            conn.execute(&format!("UPDATE {table} SET {column} = ?1"), [value]).unwrap();
        }
        drop(conn);
        let part = read(&path).unwrap();
        prop_assert!(part.samples.iter().all(|row| row.rss.min <= row.rss.last && row.rss.last <= row.rss.max));
        prop_assert!(part.samples.is_sorted_by_key(|row| row.tick));
        lowtide_store::export::csv(&part, &mut std::io::sink()).unwrap();
        lowtide_store::export::perfetto(&part, &mut std::io::sink()).unwrap();
    }

    #[test]
    fn flipped_bytes_never_panic(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..30)) {
        let folder = tempfile::tempdir().unwrap();
        let path = good(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        std::fs::write(&path, bytes).unwrap();
        let _ = read(&path);
    }
}
