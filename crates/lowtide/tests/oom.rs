//! Real deaths: by a real cgroup limit, and by a plain kill.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use lowtide_model::EventKind;
use support::cgroup::Cgroup;
use support::{Stage, read};

#[test]
fn a_job_killed_by_its_cgroups_limit_is_explained_and_one_killed_by_hand_is_not() {
    // Without a memory controller to write to, the counters of a fake tree stand in (crates/run, oom.rs).
    let Some(cgroup) = Cgroup::new(64 << 20) else { return };
    let stage = Stage::new();
    let file = stage.path("run.tide");
    let actor = stage.renamed("eater");
    let command = stage.command(&["run", "--out", file.to_str().unwrap(), "--", &actor, "eat"]);
    let output = cgroup.inside(&command).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(137), "{said}");
    assert!(
        said.contains("was killed by the kernel: out of memory, by the memory limit of 64.0 MiB"),
        "{said}"
    );
    let recording = read(&file);
    assert_eq!(recording.events.iter().filter(|event| event.kind == EventKind::Oom).count(), 1);
    let usage = recording.cgroups.iter().map(|row| row.usage.max).max().unwrap();
    assert!(usage.0 > 60 << 20, "the cgroup's charge was recorded up to the end: {usage}");

    let file = stage.path("killed.tide");
    let output = stage.output(&["run", "--out", file.to_str().unwrap(), "--", "sh", "-c", "kill -9 $$"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(137));
    assert!(said.contains("no OOM counter moved") && !said.contains("out of memory"), "{said}");
    assert!(read(&file).events.iter().all(|event| event.kind != EventKind::Oom));
}

#[test]
fn strangers_in_the_cgroup_make_it_likely_and_a_killed_grandchild_is_named() {
    let Some(cgroup) = Cgroup::new(48 << 20) else { return };
    let stage = Stage::new();
    let mut stranger = cgroup.stranger();
    let file = stage.path("run.tide");
    let (wrapper, eater) = (stage.renamed("wrap"), stage.renamed("eater"));
    let command =
        stage.command(&["run", "--out", file.to_str().unwrap(), "--", &wrapper, "tree", &eater, "eat"]);
    let output = cgroup.inside(&command).output().unwrap();
    let _ = stranger.kill();
    let _ = stranger.wait();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("likely killed by the kernel") && said.contains("another process shares that cgroup"),
        "{said}"
    );
    let recording = read(&file);
    let oom = recording.events.iter().find(|event| event.kind == EventKind::Oom).unwrap();
    let victim = recording.processes.iter().find(|process| Some(process.key) == oom.process).unwrap();
    assert!(victim.argv[0].ends_with("eater"), "{:?}", victim.argv);
}
