//! What is written is what is read.

mod made;

use lowtide_model::{RunState, Tick};
use lowtide_store::{Cursor, Entry, StoreError, Writer, open};
use made::{everything, finished, meta};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_finished_recording_reads_back_whole_from_one_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/sub/run.tide");
    let writer = Writer::create(&path, meta()).unwrap();
    let wanted = everything();
    made::push_all(&writer, &wanted);
    writer.announce(Tick(9));
    assert_eq!(writer.finish(finished()).unwrap(), path);

    let mut reader = open(&path).unwrap();
    assert_eq!(reader.state(), RunState::Finished);
    let read = reader.recording().unwrap();
    assert_eq!(read, wanted);
    let names: Vec<_> =
        std::fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["run.tide"]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[test]
fn an_existing_file_is_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tide");
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(Writer::create(&path, meta()), Err(StoreError::Exists { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_live_recording_is_followed_and_then_closes_as_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tide");
    let writer = Writer::create(&path, meta()).unwrap();
    let wanted = everything();
    let mut reader = open(&path).unwrap();
    assert_eq!(reader.state(), RunState::Running);
    let mut cursor = Cursor::default();
    assert!(reader.since(&mut cursor).unwrap().samples.is_empty());

    made::push_all(&writer, &wanted);
    writer.announce(Tick(9));
    writer.flush_soon();
    made::wait_for(|| writer.health().durable == Some(Tick(9)));
    let first = reader.since(&mut cursor).unwrap();
    assert_eq!(first.samples, wanted.samples);
    assert_eq!(first.processes, wanted.processes);
    assert!(reader.since(&mut cursor).unwrap().samples.is_empty());

    let mut dead = wanted.processes[1].clone();
    dead.died = Some(Tick(10));
    writer.push(Entry::Process(dead.clone()));
    assert_eq!(writer.finish(finished()).unwrap(), path);
    let last = reader.since(&mut cursor).unwrap();
    assert_eq!(reader.state(), RunState::Finished);
    assert!(last.processes.contains(&dead));
    assert!(!folder.path().join("run.tide-wal").exists());
}

#[test]
fn a_writer_that_is_dropped_leaves_a_recording_without_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tide");
    let mut header = meta();
    header.recorder = Some(lowtide_model::ProcKey { pid: 1, start_ticks: u64::MAX >> 1 });
    let writer = Writer::create(&path, header).unwrap();
    made::push_all(&writer, &everything());
    writer.announce(Tick(7));
    drop(writer);
    let mut reader = open(&path).unwrap();
    assert_eq!(reader.state(), RunState::CutOff);
    let read = reader.recording().unwrap();
    assert_eq!(read.samples.len(), everything().samples.len());
    assert_eq!(read.meta.ended, Some(Tick(7)));
}

#[test]
fn a_reader_that_looks_all_the_time_never_keeps_the_file_from_closing_as_one() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = folder.path().join(format!("{round}.tide"));
        let writer = Writer::create(&path, meta()).unwrap();
        std::thread::scope(|scope| {
            let watching = scope.spawn(|| {
                let mut reader = open(&path).unwrap();
                let mut cursor = Cursor::default();
                let mut seen = 0;
                loop {
                    seen += reader.since(&mut cursor).unwrap().samples.len();
                    if reader.state() == RunState::Finished {
                        return seen + reader.since(&mut cursor).unwrap().samples.len();
                    }
                }
            });
            for tick in 0..500 {
                writer.push(Entry::Sample(made::sample(10, tick, 4096)));
                writer.flush_soon();
            }
            writer.finish(finished()).unwrap();
            assert_eq!(watching.join().unwrap(), 500, "every row is seen once");
        });
        assert!(!folder.path().join(format!("{round}.tide-wal")).exists());
    }
}
