//! The guard with real jobs under real limits: what leaks begins again and loses nothing, what fits is left alone.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

#[path = "guard/fills.rs"]
mod fills;
#[path = "guard/full_disk.rs"]
mod full_disk;
#[path = "guard/harmless.rs"]
mod harmless;
#[path = "guard/rush.rs"]
mod rush;
mod support;

use lowtide_model::{EventKind, Recording};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use support::cgroup::Cgroup;
use support::{Stage, eventually, lives, lowtide, read};

const MIB: u64 = 1 << 20;

/// `lowtide run --guard FLAGS -- python loop.py ARGS`.
fn guarded(stage: &Stage, flags: &[&str], job: &[&str]) -> Command {
    let file = stage.path("run.tide");
    let mut command = stage.command(&["run", "--guard", "--out", file.to_str().unwrap()]);
    command.args(flags).arg("--").args(looping(stage)).args(job);
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    command.env("PYTHONPATH", package).env_remove("LOWTIDE_CHECKPOINT").stdin(Stdio::null());
    command
}

/// The program with its folders on this stage.
fn looping(stage: &Stage) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guard/loop.py");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (save, log) = (text(&stage.path("saves")), text(&stage.path("log")));
    ["python3", &text(&script), "--save", &save, "--log", &log].map(str::to_owned).into()
}

/// The steps that were made, in their order, with their losses.
fn steps(stage: &Stage) -> Vec<(u64, u64)> {
    let log = std::fs::read_to_string(stage.path("log")).unwrap_or_default();
    let line = |line: &str| {
        let (step, loss) = line.split_once(' ')?;
        Some((step.parse().ok()?, loss.parse().ok()?))
    };
    log.lines().filter_map(line).collect()
}

/// The same steps without any trouble.
fn unbroken(count: u64) -> Vec<(u64, u64)> {
    let mut loss = 1_u64;
    let next = |step: u64| {
        loss = loss.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
        (step, loss)
    };
    (1..=count).map(next).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the guard noted, by its short names.
fn noted(recording: &Recording) -> Vec<String> {
    let events = recording.events.iter().filter(|event| event.kind == EventKind::Guard);
    let data =
        events.filter_map(|event| serde_json::from_str::<serde_json::Value>(event.data.as_deref()?).ok());
    data.filter_map(|data| Some(data["guard"].as_str()?.to_owned())).collect()
}

#[test]
fn a_loop_that_leaks_under_a_real_limit_makes_every_step_once_and_nobody_is_killed() {
    let Some(cgroup) = Cgroup::new(200 * MIB) else { return };
    let stage = Stage::new();
    let command = guarded(&stage, &["--resume", "9"], &["--leak", "3", "--steps", "100", "--step-ms", "60"]);
    let output = cgroup.inside(&command).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_eq!(cgroup.kills(), 0, "{words}");
    assert_eq!(steps(&stage), unbroken(100), "{words}");
    let recording = read(&stage.path("run.tide"));
    let noted = noted(&recording);
    let count = |name: &str| noted.iter().filter(|known| *known == name).count();
    assert!(count("life") >= 1, "{noted:?}");
    assert_eq!((count("asked"), count("stopped")), (count("life"), count("life")), "{noted:?}");
    let lives = recording
        .processes
        .iter()
        .filter(|process| process.argv.iter().any(|word| word.ends_with("loop.py")));
    assert!(lives.count() > count("life"), "every life is in the one recording");
}

#[test]
fn without_resume_it_stops_with_code_75_and_the_command_it_names_goes_on() {
    let stage = Stage::new();
    let job = ["--leak", "4", "--steps", "60", "--step-ms", "40", "--from", "{checkpoint}"];
    let output = guarded(&stage, &["--limit", "150MiB"], &job).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(75), "{words}");
    let made = steps(&stage).len() as u64;
    assert!(made > 5 && made < 60, "{made} steps; {words}");
    assert_eq!(steps(&stage), unbroken(made));
    let line = words.lines().find_map(|line| line.trim().strip_prefix("resume with  ")).unwrap().to_owned();
    let mut again = Command::new("sh");
    again.args(["-c", &line.replace("--limit 150MiB", "--limit 4GiB").replace("run.tide", "again.tide")]);
    let first = guarded(&stage, &[], &[]);
    again.envs(first.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = again.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{line}\n{}", said(&output));
    assert_eq!(steps(&stage), unbroken(60), "{line}");
}

#[test]
fn looks_come_before_all_else_where_that_is_allowed_and_the_job_runs_as_its_caller_wanted() {
    const READ: &str =
        "import os; print(os.nice(0), os.sched_getscheduler(0), os.sched_getscheduler(os.getppid()))";
    const TRY: &str = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))";
    let allowed = Command::new("python3").args(["-c", TRY]).stderr(Stdio::null()).status().unwrap().success();
    for (words, nice, policy) in [
        (&["nice", "-n", "7"][..], 7, libc::SCHED_OTHER),
        (&["chrt", "--idle", "0"], 0, libc::SCHED_IDLE),
        (&["nice", "-n", "0"], 0, libc::SCHED_OTHER),
    ] {
        let stage = Stage::new();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(lowtide()).args(["run", "--guard", "--quiet", "--out"]);
        command.arg(stage.path("run.tide")).args(["--", "python3", "-c", READ]);
        let output = command.env("XDG_RUNTIME_DIR", stage.path("runtime")).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<i32> = told.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let ours = if allowed { libc::SCHED_RR | libc::SCHED_RESET_ON_FORK } else { policy };
        assert_eq!(numbers, [nice, policy, ours], "{words:?}: {told}{}", said(&output));
    }
}

/// Every step up to `count` was made at least once, and always with the same loss.
fn assert_all_made(stage: &Stage, count: u64, words: &str) {
    let made: BTreeSet<(u64, u64)> = steps(stage).into_iter().collect();
    assert_eq!(made.into_iter().collect::<Vec<_>>(), unbroken(count), "{words}");
}

#[test]
fn a_loop_that_saves_on_a_signal_is_signalled_and_loses_nothing() {
    let Some(cgroup) = Cgroup::new(200 * MIB) else { return };
    let stage = Stage::new();
    let job = ["--way", "term", "--leak", "3", "--steps", "80", "--step-ms", "60"];
    let command = guarded(&stage, &["--resume", "9", "--stop-signal", "TERM"], &job);
    let output = cgroup.inside(&command).output().unwrap();
    let words = said(&output);
    assert_eq!((output.status.code(), cgroup.kills()), (Some(0), 0), "{words}");
    assert_eq!(steps(&stage), unbroken(80), "{words}");
    assert!(noted(&read(&stage.path("run.tide"))).contains(&"signalled".to_owned()), "{words}");
}

#[test]
fn a_loop_that_ignores_everything_is_ended_before_the_kernel_does_it_and_keeps_its_last_checkpoint() {
    let Some(cgroup) = Cgroup::new(200 * MIB) else { return };
    let stage = Stage::new();
    let job = ["--way", "nothing", "--every", "5", "--leak", "4", "--steps", "80", "--step-ms", "60"];
    let output = cgroup.inside(&guarded(&stage, &["--resume", "9"], &job)).output().unwrap();
    let words = said(&output);
    assert_eq!((output.status.code(), cgroup.kills()), (Some(0), 0), "{words}");
    assert_all_made(&stage, 80, &words);
    let lives = noted(&read(&stage.path("run.tide"))).iter().filter(|name| *name == "life").count();
    let repeated = steps(&stage).len() - 80;
    assert!(lives >= 1 && repeated <= 6 * lives, "{repeated} steps were repeated in {lives} lives: {words}");
    assert!(words.contains("only its last checkpoint is kept"), "{words}");
}

#[test]
fn a_known_leak_is_cut_into_chunks_of_steps_or_of_time() {
    for flags in [["--chunk-steps", "12"], ["--chunk-time", "1s"]] {
        let stage = Stage::new();
        let output = guarded(&stage, &flags, &["--steps", "50", "--step-ms", "60"]).output().unwrap();
        let words = said(&output);
        assert_eq!(output.status.code(), Some(0), "{words}");
        assert_eq!(steps(&stage), unbroken(50), "{words}");
        let lives = noted(&read(&stage.path("run.tide"))).iter().filter(|name| *name == "life").count();
        assert!(lives >= 2, "{lives} lives with {flags:?}: {words}");
    }
}

#[test]
fn a_save_that_needs_a_third_of_the_limit_is_asked_for_while_it_fits() {
    let Some(cgroup) = Cgroup::new(240 * MIB) else { return };
    let stage = Stage::new();
    let job = [
        "--leak",
        "3",
        "--steps",
        "80",
        "--step-ms",
        "60",
        "--every",
        "8",
        "--save-takes",
        "72",
        "--save-ms",
        "150",
    ];
    let output = cgroup.inside(&guarded(&stage, &["--resume", "9"], &job)).output().unwrap();
    let words = said(&output);
    assert_eq!((output.status.code(), cgroup.kills()), (Some(0), 0), "{words}");
    assert_eq!(steps(&stage), unbroken(80), "{words}");
}

#[test]
fn a_limit_that_is_lowered_while_it_runs_counts_at_once() {
    let Some(cgroup) = Cgroup::new(2000 * MIB) else { return };
    let stage = Stage::new();
    let job = ["--leak", "2", "--steps", "60", "--step-ms", "80"];
    let mut child =
        cgroup.inside(&guarded(&stage, &["--resume", "9"], &job)).stderr(Stdio::piped()).spawn().unwrap();
    eventually("ten steps", || (steps(&stage).len() >= 10).then_some(()));
    assert!(cgroup.set_limit(110 * MIB));
    let words = rest_of(&mut child);
    assert_eq!((child.wait().unwrap().code(), cgroup.kills()), (Some(0), 0), "{words}");
    assert_eq!(steps(&stage), unbroken(60), "{words}");
    assert!(words.contains("of 110 MiB"), "{words}");
}

#[test]
fn an_evaluation_that_will_not_fit_is_said_and_stepped_around() {
    let Some(cgroup) = Cgroup::new(220 * MIB) else { return };
    let stage = Stage::new();
    let job =
        ["--leak", "2", "--steps", "60", "--step-ms", "60", "--eval-every", "10", "--eval-takes", "110"];
    let output = cgroup.inside(&guarded(&stage, &["--resume", "9"], &job)).output().unwrap();
    let words = said(&output);
    assert_eq!((output.status.code(), cgroup.kills()), (Some(0), 0), "{words}");
    assert_eq!(steps(&stage), unbroken(60), "{words}");
    assert!(words.contains("the evaluation at step"), "{words}");
}

#[test]
fn a_loop_that_gets_no_further_is_stopped_and_told() {
    let stage = Stage::new();
    let job = ["--leak", "4", "--steps", "400", "--step-ms", "40", "--trouble", "forgets"];
    let output = guarded(&stage, &["--limit", "120MiB", "--resume", "50"], &job).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(75), "{words}");
    assert!(words.contains("it got no further than"), "{words}");
    let begun = steps(&stage).iter().filter(|(step, _)| *step == 1).count();
    assert!(begun <= 4, "{begun} lives began at nothing: {words}");
}

#[test]
fn a_save_that_fails_and_one_that_is_cut_fall_back_to_the_checkpoint_before() {
    for trouble in ["fails", "breaks"] {
        let stage = Stage::new();
        let job = ["--leak", "4", "--steps", "60", "--step-ms", "40", "--every", "5", "--trouble", trouble];
        let output = guarded(&stage, &["--limit", "150MiB", "--resume", "20"], &job).output().unwrap();
        let words = said(&output);
        assert_eq!(output.status.code(), Some(0), "{trouble}: {words}");
        assert_all_made(&stage, 60, &words);
        assert!(steps(&stage).len() > 60, "steps since that checkpoint are made once more: {words}");
    }
}

#[test]
fn a_save_that_fails_with_nothing_before_it_leaves_the_jobs_own_exit_code() {
    let stage = Stage::new();
    let job = ["--leak", "4", "--steps", "60", "--step-ms", "40", "--trouble", "fails"];
    let output = guarded(&stage, &["--limit", "120MiB", "--resume", "20"], &job).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("nothing was kept"), "{words}");
}

#[test]
fn a_save_that_hangs_while_memory_grows_and_a_job_that_takes_all_at_once_go_on_from_what_was_kept() {
    // In one cgroup with lowtide, and apart. The kernel may be the quicker one: lowtide must not be what it takes next.
    let apart: &[&str] = &["--isolate", "--max", "250MiB"];
    for (trouble, limit, isolate) in
        [("hangs", 250, &[][..]), ("hangs", 1000, apart), ("doubles", 1000, apart)]
    {
        let Some(cgroup) = Cgroup::new(limit * MIB) else { return };
        let stage = Stage::new();
        let job = [
            "--leak",
            "4",
            "--steps",
            "70",
            "--step-ms",
            "40",
            "--every",
            "5",
            "--trouble",
            trouble,
            "--trouble-at",
            "20",
        ];
        let flags = [&["--resume", "20"], isolate].concat();
        let output = cgroup.inside(&guarded(&stage, &flags, &job)).output().unwrap();
        let words = said(&output);
        assert_eq!(output.status.code(), Some(0), "{trouble}: {words}");
        assert_all_made(&stage, 70, &words);
    }
}

#[test]
fn a_save_that_hangs_while_memory_creeps_up_is_ended_before_the_kernel_does_it_and_that_is_said() {
    let Some(cgroup) = Cgroup::new(200 * MIB) else { return };
    let stage = Stage::new();
    let job = ["--leak", "4", "--steps", "60", "--step-ms", "60", "--every", "5"];
    let job = [&job[..], &["--trouble", "hangs", "--hang-leak", "0.05"]].concat();
    let output = cgroup.inside(&guarded(&stage, &["--resume", "20"], &job)).output().unwrap();
    let words = said(&output);
    assert_eq!((output.status.code(), cgroup.kills()), (Some(0), 0), "{words}");
    assert_all_made(&stage, 60, &words);
    assert!(words.contains("ended in a save that took more and more memory"), "{words}");
    assert!(!words.contains("the kernel killed it"), "{words}");
}

/// Only root may be spared by the kernel; only then lowtide is.
#[test]
fn the_kernel_is_asked_to_spare_lowtide_and_neither_the_job_nor_a_hook() {
    let score = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    let own: i32 = score("self").trim().parse().unwrap();
    let may = Command::new("sh").args(["-c", "echo -1000 > /proc/self/oom_score_adj"]).output().unwrap();
    if !may.status.success() || own != 0 {
        return;
    }
    let stage = Stage::new();
    let (file, hook) = (stage.path("run.tide"), stage.path("hook"));
    let on = format!("end=cat /proc/self/oom_score_adj > {}", hook.display());
    let mut command = stage.command(&["run", "--guard", "--quiet", "--on", &on, "--out"]);
    let look = "cat /proc/self/oom_score_adj /proc/$PPID/oom_score_adj";
    let output = command.arg(file).args(["--", "sh", "-c", look]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "300\n-1000\n", "{}", said(&output));
    assert_eq!(std::fs::read_to_string(hook).unwrap(), "0\n");
}

#[test]
fn a_save_that_hangs_is_told_with_its_time_and_the_signal_it_is_known_to_wake_on_is_sent() {
    let stage = Stage::new();
    let job = ["--leak", "4", "--steps", "40", "--step-ms", "40", "--trouble", "stalls"];
    let flags = ["--limit", "150MiB", "--resume", "9", "--stop-signal", "USR1"];
    let output = guarded(&stage, &flags, &job).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_eq!(steps(&stage), unbroken(40), "{words}");
    assert!(words.contains("it has been saving for") && words.contains("it is left alone"), "{words}");
    let noted = noted(&read(&stage.path("run.tide")));
    let at = |name: &str| noted.iter().position(|known| known == name);
    assert!(at("taken_up") < at("overdue") && at("overdue") < at("signalled"), "{noted:?}");
    assert!(at("signalled") < at("life") && !noted.contains(&"killed".to_owned()), "{noted:?}");
}

#[test]
fn a_save_that_hangs_is_ended_when_the_user_set_a_time_for_it() {
    let stage = Stage::new();
    let job = ["--leak", "4", "--steps", "40", "--step-ms", "40", "--every", "5", "--trouble", "stalls"];
    let flags = ["--limit", "150MiB", "--resume", "9", "--stop-within", "2s"];
    let output = guarded(&stage, &flags, &job).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_all_made(&stage, 40, &words);
    assert!(words.contains("it did not stop within --stop-within"), "{words}");
}

/// Reads what a lowtide says until a line holds this.
fn hear(child: &mut Child, words: &str) -> String {
    let mut heard = String::new();
    let mut lines = BufReader::with_capacity(1, child.stderr.as_mut().unwrap());
    while !heard.contains(words) {
        assert!(lines.read_line(&mut heard).unwrap() > 0, "never said `{words}`: {heard}");
    }
    heard
}

fn rest_of(child: &mut Child) -> String {
    let mut words = String::new();
    child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    words
}

#[test]
fn lowtide_killed_while_the_job_saves_harms_nobody_and_the_next_one_goes_on() {
    let stage = Stage::new();
    let saves = stage.path("saves");
    let job =
        ["--leak", "4", "--steps", "50", "--step-ms", "40", "--save-ms", "1500", "--from", "{checkpoint}"];
    let flags = ["--limit", "120MiB", "--resume", "9", "--checkpoints", saves.to_str().unwrap()];
    let mut child =
        guarded(&stage, &flags, &job).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    hear(&mut child, "asked to save and stop");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    let kept = || std::fs::read_dir(&saves).ok()?.filter_map(Result::ok).map(|entry| entry.path()).next();
    let whole = eventually("the save is whole", || {
        kept().filter(|path| path.extension().is_some_and(|end| end == "pt"))
    });
    let made = steps(&stage).len() as u64;
    assert!(whole.to_str().unwrap().contains(&format!("ckpt-{made}.")), "{whole:?} of {made} steps");
    std::fs::remove_file(stage.path("run.tide")).unwrap();
    let again = guarded(&stage, &["--limit", "4GiB", "--checkpoints", saves.to_str().unwrap()], &job)
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    assert_eq!(steps(&stage), unbroken(50));
}

#[test]
fn ctrl_c_ends_it_at_every_stage_and_nothing_begins_again() {
    for stage_of_it in ["trains", "saves", "has stopped"] {
        let stage = Stage::new();
        let job =
            ["--leak", "4", "--steps", "500", "--step-ms", "40", "--save-ms", "1000", "--trouble", "leaves"];
        let mut command = guarded(&stage, &["--limit", "120MiB", "--resume", "9"], &job);
        // A group of its own, as a terminal gives: Ctrl-C goes to everybody in it.
        command.process_group(0).stderr(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        match stage_of_it {
            "trains" => eventually("some steps", || (steps(&stage).len() >= 3).then_some(())),
            "saves" => drop(hear(&mut child, "asked to save and stop")),
            _ => {
                let mut heard = String::new();
                let mut lines = BufReader::with_capacity(1, child.stdout.as_mut().unwrap());
                while !heard.contains("stopped") {
                    assert!(lines.read_line(&mut heard).unwrap() > 0, "never stopped: {heard}");
                }
            }
        }
        killpg(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        let words = rest_of(&mut child);
        let status = child.wait().unwrap();
        assert!(!status.success(), "{stage_of_it}: {status:?} {words}");
        let made = steps(&stage);
        assert_eq!(made, unbroken(made.len() as u64), "{stage_of_it}: {words}");
        let recording = read(&stage.path("run.tide"));
        let alive =
            recording.processes.iter().filter(|one| one.argv.iter().any(|word| word.ends_with("loop.py")));
        assert!(alive.map(|one| one.key.pid).all(|pid| !lives(pid)), "{stage_of_it}: {words}");
    }
}

#[test]
fn a_job_kept_apart_dies_alone_at_its_own_limit_and_its_cgroup_goes_with_it() {
    // Where no cgroup may be made, the fake tree of crates/run stands in (isolation.rs).
    let Some(cgroup) = Cgroup::new(1000 * MIB) else { return };
    let stage = Stage::new();
    let file = stage.path("run.tide");
    let actor = stage.renamed("eater");
    let mut command = stage.command(&["run", "--isolate", "--max", "64MiB", "--out", file.to_str().unwrap()]);
    command.args(["--", &actor, "eat"]);
    let output = cgroup.inside(&command).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(137), "{words}");
    assert!(words.contains("out of memory, by the memory limit of 64.0 MiB"), "{words}");
    let recording = read(&file);
    let lived = recording.processes.iter().find(|one| one.argv[0].ends_with("eater")).unwrap();
    assert!(
        lived
            .cgroup
            .as_deref()
            .is_some_and(|path| path.contains("/lowtide-test-") && path.ends_with(&recording.meta.run_id))
    );
    let left = std::fs::read_dir(&cgroup.folder).unwrap().filter_map(Result::ok);
    assert_eq!(left.filter(|entry| entry.path().is_dir()).count(), 0, "nothing is left behind");
}

#[test]
fn the_guard_saves_a_job_in_a_cgroup_of_its_own() {
    let Some(cgroup) = Cgroup::new(1000 * MIB) else { return };
    let stage = Stage::new();
    let job = ["--leak", "3", "--steps", "60", "--step-ms", "60"];
    let output = cgroup
        .inside(&guarded(&stage, &["--resume", "9", "--isolate", "--max", "130MiB"], &job))
        .output()
        .unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert_eq!(steps(&stage), unbroken(60), "{words}");
    assert!(words.contains("of 130 MiB"), "{words}");
}

#[test]
fn a_cache_that_does_not_fit_is_saved_and_not_started_again_and_again() {
    let stage = Stage::new();
    let job = ["--leak", "3", "--steps", "400", "--step-ms", "60", "--trouble", "refills"];
    let output = guarded(&stage, &["--limit", "150MiB", "--resume", "50"], &job).output().unwrap();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(75), "{words}");
    assert!(words.contains("a cache that does not fit"), "{words}");
    let made = steps(&stage);
    assert_eq!(made, unbroken(made.len() as u64), "and nothing that was done is lost: {words}");
    let lives = noted(&read(&stage.path("run.tide"))).iter().filter(|name| *name == "life").count();
    assert!(lives <= 2, "{lives} lives: {words}");
}
