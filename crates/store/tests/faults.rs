//! What goes wrong with disks and processes, for real: SIGKILL, a full disk, a vanished folder, a file system without
//! shared memory, a read-only folder, a disk that hangs.
//!
//! Actors are this test program, started again with a task in its environment; `unshare` gives them mounts of their own.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::expect_used,
    reason = "actors and their stages stop where they cannot go on"
)]

mod made;

use lowtide_model::{Recording, RunState, Tick};
use lowtide_store::{Entry, Kind, Options, Writer, open};
use made::{finished, meta, sample, wait_for};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TASK: &str = "LOWTIDE_STORE_ACTOR";
const PLACE: &str = "LOWTIDE_STORE_PLACE";

/// Runs `task` of this program in a process of its own.
fn actor(task: &str, place: &Path, with_mounts: bool) -> Child {
    let own = std::env::current_exe().unwrap();
    let mut command = if with_mounts {
        let mut unshare = Command::new("unshare");
        let flags = if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" };
        unshare.arg(flags).arg(own);
        unshare
    } else {
        Command::new(own)
    };
    command.args(["--exact", "the_actor_plays_its_task", "--nocapture", "--test-threads=1"]);
    command.env(TASK, task).env(PLACE, place).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the actor and shows what it said if it failed.
fn must_succeed(child: Child) {
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn the_actor_plays_its_task() {
    let place = std::env::var_os(PLACE).map(PathBuf::from).unwrap_or_default();
    match std::env::var(TASK).as_deref() {
        Ok("write for ever") => write_for_ever(&place, Options::default()),
        Ok("copy for ever") => write_for_ever(&place, scratch_in(&place, Duration::from_millis(300))),
        Ok("copy once") => copy_once(&place),
        Ok("fill the disk") => fill_the_disk(&place),
        Ok("end on a full disk") => end_on_a_full_disk(&place),
        Ok("write through fuse") => write_through_fuse(&place),
        Ok("hang") => hang(&place),
        Ok(other) => panic!("no task {other}"),
        Err(_) => {}
    }
}

/// Pushes samples as fast as they come and prints every tick that health calls durable.
fn write_for_ever(place: &Path, options: Options) {
    let writer = Writer::create_with(&place.join("run.tide"), meta(), options).unwrap();
    let mut told = None;
    for tick in 1.. {
        writer.push(Entry::Process(made::process(10)));
        writer.push(Entry::Sample(sample(10, tick, tick * 4096)));
        writer.announce(Tick(tick));
        writer.flush_soon();
        let durable = writer.health().durable;
        if durable != told {
            told = durable;
            println!("durable {}", durable.unwrap_or_default().0);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn scratch_in(place: &Path, snapshot_every: Duration) -> Options {
    let scratch = place.join("scratch");
    std::fs::create_dir_all(&scratch).unwrap();
    Options { always_snapshot: true, snapshot_every, scratch: Some(scratch) }
}

/// Makes the first copy only, and prints a line once rows lie on scratch.
fn copy_once(place: &Path) {
    let hour = Duration::from_hours(1);
    let writer = Writer::create_with(&place.join("run.tide"), meta(), scratch_in(place, hour)).unwrap();
    let begun = writer.health().written_bytes;
    for tick in 1.. {
        writer.push(Entry::Sample(sample(10, tick, tick * 4096)));
        writer.flush_soon();
        if writer.health().written_bytes > begun {
            println!("durable 0");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A number below `end`, different at each run; no crate needed for fifty of them.
fn random(end: u64) -> u64 {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    u64::from_ne_bytes(bytes) % end
}

/// Starts an actor, kills it after `life` from its first durable tick, and gives the last tick it had announced.
fn kill_after(task: &str, place: &Path, life: Duration) -> u64 {
    let mut child = actor(task, place, false);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let durable = |line: String| line.split_once("durable ").and_then(|(_, tick)| tick.parse::<u64>().ok());
    let first = lines.by_ref().find_map(durable).expect("a first durable tick");
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    lines.filter_map(durable).last().unwrap_or(first)
}

fn assert_holds_all_until(recording: &Recording, durable: u64) {
    let ticks: Vec<u64> = recording.samples.iter().map(|row| row.tick.0).collect();
    assert!(ticks.len() as u64 >= durable, "{} of {durable}", ticks.len());
    assert!(ticks.iter().copied().eq(1..=ticks.len() as u64), "a tick is missing or doubled");
}

#[test]
fn sigkill_at_fifty_random_moments_loses_nothing_that_was_announced() {
    let folder = tempfile::tempdir().unwrap();
    let one = |number: u64| {
        let place = folder.path().join(number.to_string());
        std::fs::create_dir(&place).unwrap();
        let durable = kill_after("write for ever", &place, Duration::from_millis(random(2500)));
        let path = place.join("run.tide");
        let mut reader = open(&path).unwrap();
        assert_eq!(reader.state(), RunState::CutOff);
        let recording = reader.recording().unwrap();
        assert_holds_all_until(&recording, durable);
        assert_eq!(recording.meta.state, Some(RunState::CutOff));
        assert!(recording.meta.ended >= Some(Tick(durable)));
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1, "the first open makes it one file");
    };
    std::thread::scope(|scope| {
        for lane in 0..5 {
            scope.spawn(move || (lane * 10..lane * 10 + 10).for_each(one));
        }
    });
}

#[test]
fn sigkill_of_a_copied_recording_keeps_what_the_copies_were_said_to_hold() {
    let folder = tempfile::tempdir().unwrap();
    let durable = kill_after("copy for ever", folder.path(), Duration::from_secs(2));
    assert!(durable > 0);
    std::fs::remove_dir_all(folder.path().join("scratch")).unwrap();
    let mut copy = open(&folder.path().join("run.tide")).unwrap();
    assert_eq!(copy.state(), RunState::CutOff);
    assert_holds_all_until(&copy.recording().unwrap(), durable);
}

#[test]
fn what_a_killed_recorder_had_not_copied_is_found_on_scratch() {
    let folder = tempfile::tempdir().unwrap();
    kill_after("copy once", folder.path(), Duration::ZERO);
    let path = folder.path().join("run.tide");
    let all = open(&path).unwrap().recording().unwrap();
    assert!(!all.samples.is_empty());
    std::fs::remove_dir_all(folder.path().join("scratch")).unwrap();
    assert!(open(&path).unwrap().recording().unwrap().samples.is_empty(), "the copy alone is from the start");
}

fn mount_small_tmpfs(place: &Path, options: &str) {
    let status =
        Command::new("mount").args(["-t", "tmpfs", "-o", options, "small"]).arg(place).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_full_disk_is_said_and_the_newest_rows_are_written_when_there_is_room_again() {
    let folder = tempfile::tempdir().unwrap();
    must_succeed(actor("fill the disk", folder.path(), true));
}

fn fill_the_disk(place: &Path) {
    mount_small_tmpfs(place, "size=1m");
    let path = place.join("run.tide");
    let writer = Writer::create(&path, meta()).unwrap();
    std::fs::write(place.join("ballast"), vec![1; 2 << 20]).unwrap_err();
    let mut tick = 0;
    let mut push = |count: u64| {
        for _ in 0..count {
            tick += 1;
            writer.push(Entry::Sample(sample(10, tick, tick * 4096)));
        }
        writer.announce(Tick(tick));
        writer.flush_soon();
        tick
    };
    push(50_000);
    wait_for(|| writer.health().trouble.is_some());
    let trouble = writer.health().trouble.unwrap();
    assert!(trouble.contains("run.tide") && trouble.contains("full"), "{trouble}");
    assert!(writer.health().dropped_rows > 0, "50,000 rows are more than the bound");
    assert!(open(&path).is_ok(), "readable while the disk is full");
    std::fs::remove_file(place.join("ballast")).unwrap();
    mount_small_tmpfs(place, "remount,size=32m");
    let last = push(10);
    wait_for(|| writer.health().durable == Some(Tick(last)));
    assert_eq!(writer.health().trouble, None);
    assert_eq!(writer.finish(finished()).unwrap(), path);

    let recording = open(&path).unwrap().recording().unwrap();
    assert_eq!(recording.samples.last().unwrap().tick, Tick(last));
    assert_eq!(recording.meta.dropped_rows + recording.samples.len() as u64, last);
    assert!(
        recording.events.iter().any(|event| event.text.contains("rows were lost")),
        "{:?}",
        recording.events
    );
}

#[test]
fn a_recording_that_ends_on_a_full_disk_is_whole_on_scratch() {
    let folder = tempfile::tempdir().unwrap();
    must_succeed(actor("end on a full disk", folder.path(), true));
}

fn end_on_a_full_disk(place: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    mount_small_tmpfs(place, "size=1m");
    let path = place.join("run.tide");
    let options = Options { scratch: Some(scratch.path().to_owned()), ..Options::default() };
    let writer = Writer::create_with(&path, meta(), options).unwrap();
    writer.push(Entry::Sample(sample(10, 1, 4096)));
    writer.announce(Tick(1));
    writer.flush_soon();
    wait_for(|| writer.health().durable == Some(Tick(1)));
    std::fs::write(place.join("ballast"), vec![1; 2 << 20]).unwrap_err();
    (2..5000).for_each(|tick| writer.push(Entry::Sample(sample(10, tick, 4096))));
    writer.announce(Tick(4999));
    let where_it_lies = writer.finish(finished()).unwrap();
    assert!(where_it_lies.starts_with(scratch.path()), "{}", where_it_lies.display());
    let mut reader = open(&where_it_lies).unwrap();
    assert_eq!(reader.state(), RunState::Finished);
    assert_eq!(reader.recording().unwrap().samples.len(), 4999);
}

#[test]
fn a_vanished_folder_is_noticed_and_nothing_recorded_is_lost_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let place = folder.path().join("runs");
    let path = place.join("run.tide");
    let options = Options {
        scratch: Some(scratch.path().to_owned()),
        snapshot_every: Duration::from_millis(200),
        ..Options::default()
    };
    let writer = Writer::create_with(&path, meta(), options).unwrap();
    assert_eq!(writer.health().kind, Kind::Direct);
    let push = |tick| {
        writer.push(Entry::Sample(sample(10, tick, 4096)));
        writer.announce(Tick(tick));
        writer.flush_soon();
    };
    writer.push(Entry::Process(made::process(10)));
    push(1);
    wait_for(|| writer.health().durable == Some(Tick(1)));
    std::fs::remove_dir_all(&place).unwrap();
    push(2);
    wait_for(|| writer.health().trouble.is_some());
    assert_eq!(writer.health().durable, None, "what lay in the folder no longer survives");
    assert!(writer.health().trouble.unwrap().contains("run.tide"));
    std::fs::create_dir(&place).unwrap();
    push(3);
    wait_for(|| writer.health().durable == Some(Tick(3)));
    assert_eq!(writer.health().trouble, None);
    assert!(matches!(writer.health().kind, Kind::Snapshot { .. }));
    let live = open(&path).unwrap().recording().unwrap();
    assert_eq!(live.samples.len(), 3);
    assert_eq!(writer.finish(finished()).unwrap(), path);
    let recording = open(&path).unwrap().recording().unwrap();
    assert_eq!(recording.samples.len(), 3);
    assert_eq!(recording.processes, [made::process(10)]);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
}

#[test]
fn a_removed_file_comes_back_whole_and_a_log_left_behind_does_not_spoil_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tide");
    let writer = Writer::create(&path, meta()).unwrap();
    (1..=500).for_each(|tick| writer.push(Entry::Sample(sample(10, tick, 4096))));
    writer.announce(Tick(500));
    writer.flush_soon();
    wait_for(|| writer.health().durable == Some(Tick(500)));
    std::fs::remove_file(&path).unwrap();
    let log = folder.path().join("run.tide-wal");
    assert!(log.exists());
    writer.push(Entry::Sample(sample(10, 501, 4096)));
    writer.announce(Tick(501));
    writer.flush_soon();
    wait_for(|| path.exists());
    assert!(!log.exists(), "no log beside the new file");
    assert_eq!(writer.finish(finished()).unwrap(), path);
    assert_holds_all_until(&open(&path).unwrap().recording().unwrap(), 501);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_strangers_file_that_took_the_place_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tide");
    let writer = Writer::create(&path, meta()).unwrap();
    std::fs::rename(&path, folder.path().join("moved.tide")).unwrap();
    std::fs::write(&path, "precious").unwrap();
    writer.push(Entry::Sample(sample(10, 1, 4096)));
    writer.flush_soon();
    wait_for(|| writer.health().trouble.is_some());
    assert!(writer.health().trouble.unwrap().contains("another file lies there now"));
    let lies = writer.finish(finished()).unwrap();
    assert_ne!(lies, path);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(open(&lies).unwrap().recording().unwrap().samples.len(), 1);
    std::fs::remove_file(lies).unwrap();
}

#[test]
fn a_finish_without_the_folder_says_where_the_recording_lies() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let place = folder.path().join("runs");
    let options = Options { scratch: Some(scratch.path().to_owned()), ..Options::default() };
    let writer = Writer::create_with(&place.join("run.tide"), meta(), options).unwrap();
    std::fs::remove_dir_all(&place).unwrap();
    writer.push(Entry::Sample(sample(10, 1, 4096)));
    let path = writer.finish(finished()).unwrap();
    assert!(path.starts_with(scratch.path()));
    assert_eq!(open(&path).unwrap().recording().unwrap().samples.len(), 1);
}

#[test]
fn a_copied_recording_ends_as_one_file_at_the_asked_place() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tide");
    let options = Options {
        always_snapshot: true,
        scratch: Some(scratch.path().to_owned()),
        snapshot_every: Duration::from_mins(1),
    };
    let writer = Writer::create_with(&path, meta(), options.clone()).unwrap();
    assert_eq!(writer.health().kind, Kind::Snapshot { every: Duration::from_mins(1) });
    assert_eq!(open(&path).unwrap().state(), RunState::Running, "a first copy is there at once");
    made::push_all(&writer, &made::everything());
    writer.announce(Tick(9));
    assert_eq!(writer.finish(finished()).unwrap(), path);
    assert_eq!(open(&path).unwrap().recording().unwrap(), made::everything());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let left = scratch.path().join(format!("lowtide-{}", nix::unistd::geteuid()));
    assert_eq!(std::fs::read_dir(left).unwrap().count(), 0, "scratch is clean");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(Writer::create_with(&path, meta(), options).is_err(), "and is never replaced");
}

/// Where bindfs and /dev/fuse are, the real thing; elsewhere the copy test above stands for it.
#[test]
fn a_fuse_mount_is_recorded_by_copies() {
    if !Path::new("/dev/fuse").exists() || Command::new("bindfs").arg("--version").output().is_err() {
        return a_copied_recording_ends_as_one_file_at_the_asked_place();
    }
    let folder = tempfile::tempdir().unwrap();
    must_succeed(actor("write through fuse", folder.path(), true));
}

fn bind(place: &Path) -> PathBuf {
    let (real, seen) = (place.join("real"), place.join("seen"));
    std::fs::create_dir(&real).unwrap();
    std::fs::create_dir(&seen).unwrap();
    assert!(Command::new("bindfs").arg(&real).arg(&seen).status().unwrap().success());
    seen
}

fn write_through_fuse(place: &Path) {
    let seen = bind(place);
    let path = seen.join("runs/run.tide");
    let writer = Writer::create(&path, meta()).unwrap();
    assert!(matches!(writer.health().kind, Kind::Snapshot { .. }), "{:?}", writer.health());
    made::push_all(&writer, &made::everything());
    writer.announce(Tick(9));
    assert_eq!(writer.finish(finished()).unwrap(), path);
    assert_eq!(open(&path).unwrap().recording().unwrap(), made::everything());
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    assert!(Command::new("umount").arg(&seen).status().unwrap().success());
}

#[test]
fn a_hung_disk_delays_neither_push_nor_finish() {
    if !Path::new("/dev/fuse").exists() || Command::new("bindfs").arg("--version").output().is_err() {
        return a_finish_without_the_folder_says_where_the_recording_lies();
    }
    let folder = tempfile::tempdir().unwrap();
    must_succeed(actor("hang", folder.path(), true));
}

fn hang(place: &Path) {
    let (real, seen) = (place.join("real"), place.join("seen"));
    std::fs::create_dir(&real).unwrap();
    std::fs::create_dir(&seen).unwrap();
    let mut fuse = Command::new("bindfs").arg("-f").arg(&real).arg(&seen).spawn().unwrap();
    wait_for(|| std::fs::read_to_string("/proc/self/mounts").unwrap().contains(seen.to_str().unwrap()));
    let options = Options {
        snapshot_every: Duration::from_millis(100),
        scratch: Some(place.to_owned()),
        ..Options::default()
    };
    let writer = Writer::create_with(&seen.join("run.tide"), meta(), options).unwrap();
    let pid = nix::unistd::Pid::from_raw(fuse.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let begun = Instant::now();
    for tick in 1..100_000 {
        writer.push(Entry::Sample(sample(10, tick, 4096)));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    wait_for(|| writer.health().dropped_rows > 0);
    let begun = Instant::now();
    let error = writer.finish(finished()).unwrap_err();
    assert!(error.to_string().contains("did not answer within 10 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(15));
    fuse.kill().unwrap();
    fuse.wait().unwrap();
}

#[test]
fn a_cut_off_run_in_a_read_only_folder_is_read_with_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let durable = kill_after("write for ever", folder.path(), Duration::from_millis(1200));
    assert!(folder.path().join("run.tide-wal").exists());
    std::fs::remove_file(folder.path().join("run.tide-shm")).unwrap();
    let shown = tempfile::tempdir().unwrap();
    let script = "mount --bind \"$0\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && exec \"$@\"";
    let flags = if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" };
    let output = Command::new("unshare")
        .args([flags, "sh", "-c", script])
        .arg(folder.path())
        .arg(shown.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_reader_reads_what_is_named", "--nocapture"])
        .env(PLACE, shown.path())
        .env("LOWTIDE_STORE_DURABLE", durable.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(folder.path().join("run.tide-wal").exists(), "nothing was changed");
}

/// Plays the reader of the test above; alone it reads a recording of its own.
#[test]
fn a_reader_reads_what_is_named() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else {
        return a_finished_recording_opens_from_a_folder_that_cannot_be_written();
    };
    let durable: u64 = std::env::var("LOWTIDE_STORE_DURABLE").unwrap().parse().unwrap();
    std::fs::write(place.join("x"), "").unwrap_err();
    let mut reader = open(&place.join("run.tide")).unwrap();
    assert_eq!(reader.state(), RunState::CutOff);
    assert_holds_all_until(&reader.recording().unwrap(), durable);
}

#[test]
fn a_finished_recording_opens_from_a_folder_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run ?%#.tide");
    let writer = Writer::create(&path, meta()).unwrap();
    made::push_all(&writer, &made::everything());
    writer.finish(finished()).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[18..20], [1, 1], "the file asks for no log");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    assert_eq!(open(&path).unwrap().recording().unwrap(), made::everything());
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
}
