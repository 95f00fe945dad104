//! `lowtide run` with real processes: nothing of the job is changed, and nothing of it is missed.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use lowtide_model::{Bytes, EventKind, Exit, RunState, Source};
use lowtide_verdict::{roles_of, summarize};
use std::collections::BTreeMap;
use std::process::Stdio;
use support::{Stage, eventually, lives, read, snapshot, with_argument};

#[test]
fn the_exit_code_is_the_commands_own() {
    let stage = Stage::new();
    assert_eq!(stage.output(&["run", "--", "sh", "-c", "exit 3"]).status.code(), Some(3));
    assert_eq!(stage.output(&["run", "--", "sh", "-c", "kill -TERM $$"]).status.code(), Some(128 + 15));
    assert_eq!(stage.output(&["run", "--", "true"]).status.code(), Some(0));
}

#[test]
fn a_short_run_ends_with_the_answer_that_its_recording_gets_and_tells_it_to_its_hook_once() {
    let stage = Stage::new();
    let (actor, file, hooked) = (stage.renamed("grower"), stage.path("run.tide"), stage.path("hooked"));
    let (file, hook) = (file.to_str().unwrap(), format!("verdict=cat >> {}", hooked.display()));
    let run = ["run", "--interval", "20ms", "--out", file, "--on", &hook];
    let flags = [&run[..], &["--", &actor, "leak", "1", "290", "40"]].concat();
    let said = String::from_utf8(stage.output(&flags).stderr).unwrap();
    let explained = stage.output(&["explain", "--format", "json", file]);
    let told: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!(told["verdict"], "leak", "{told}");
    let headline = told["headline"].as_str().unwrap();
    assert!(said.contains(&format!("\n  {headline}\n    process: trainer ")), "{headline}\n{said}");
    assert!(said.contains("grower leak 1 290 40\n"), "{said}");
    let hooked = std::fs::read_to_string(hooked).unwrap();
    let calls: Vec<serde_json::Value> =
        hooked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(calls.len(), 1, "{hooked}");
    assert_eq!((&calls[0]["verdict"], &calls[0]["headline"]), (&told["verdict"], &told["headline"]));
}

#[test]
fn a_limit_of_ones_own_needs_no_guard() {
    let stage = Stage::new();
    let (actor, file) = (stage.renamed("grower"), stage.path("run.tide"));
    let file = file.to_str().unwrap();
    let limited = ["run", "--limit", "170MiB", "--interval", "20ms", "--out", file, "--"];
    let said = stage.output(&[&limited[..], &[&actor, "leak", "2", "80", "40"]].concat()).stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("of 170 MiB (--limit) when least was"), "{said}");
    let explained = stage.output(&["explain", "--format", "json", file]);
    let told: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
    assert_eq!(
        (&told["outcome"]["is"], &told["outcome"]["limit_from"]),
        (&"exceeds".into(), &"--limit".into())
    );
    assert_eq!(
        stage.output(&["run", "--limit", "170", "--", "true"]).status.code(),
        Some(2),
        "of what unit?"
    );
}

#[test]
fn each_of_two_leaks_is_told_with_its_process() {
    let stage = Stage::new();
    let (alpha, beta) = (stage.renamed("alpha"), stage.renamed("beta"));
    let file = stage.path("run.tide");
    let line = format!("{alpha} leak 2 290 40 & {beta} leak 1 290 40; wait");
    let flags = ["run", "--interval", "20ms", "--out", file.to_str().unwrap(), "--", "sh", "-c", &line];
    let said = String::from_utf8(stage.output(&flags).stderr).unwrap();
    let line_of = |word: &str| said.lines().find(|line| line.contains(word)).unwrap_or_default();
    assert!(line_of("process: ").ends_with("alpha leak 2 290 40"), "{said}");
    assert!(line_of("also: leak").ends_with("beta leak 1 290 40)"), "{said}");
    let checked = stage.output(&["check", "--no-leak", file.to_str().unwrap()]).stdout;
    assert!(String::from_utf8_lossy(&checked).contains("alpha leak 2 290 40)"));
}

#[test]
fn completions_offer_what_the_help_shows_and_nothing_else() {
    let stage = Stage::new();
    let output = stage.output(&["completions", "bash"]);
    let script = String::from_utf8(output.stdout).unwrap();
    let offers = script
        .lines()
        .filter_map(|line| line.trim().strip_prefix("opts="))
        .find(|opts| opts.len() > 2)
        .unwrap();
    let offered = |word: &str| offers.split(['"', ' ']).any(|one| one == word);
    assert!(offered("run") && offered("explain"), "{offers}");
    assert!(!offered("relay") && !offered("gpu-helper") && !offered("demo-job"), "{offers}");
}

#[test]
fn a_death_by_a_real_time_signal_is_an_end_like_any_other() {
    let stage = Stage::new();
    assert_eq!(stage.output(&["run", "--", "sh", "-c", "kill -36 $$"]).status.code(), Some(128 + 36));
}

#[test]
fn a_job_that_an_interrupt_ended_ends_us_by_it_too() {
    use std::os::unix::process::ExitStatusExt;
    let stage = Stage::new();
    let status = stage.output(&["run", "--", "sh", "-c", "kill -INT $$"]).status;
    assert_eq!(status.signal(), Some(2), "so that a shell loop around us stops");
}

#[test]
fn a_place_whose_name_is_no_text_is_no_trouble() {
    use std::os::unix::ffi::OsStrExt;
    let stage = Stage::new();
    let file = stage.folder.path().join(std::ffi::OsStr::from_bytes(b"x\xff.tide"));
    let mut command = stage.command(&["run", "--quiet", "--out"]);
    command.arg(&file).args(["--", "sh", "-c", "exit 7"]);
    assert_eq!(command.stdin(Stdio::null()).output().unwrap().status.code(), Some(7));
    assert!(file.exists());
}

#[test]
fn a_command_that_does_not_exist_is_our_failure_with_its_name() {
    let stage = Stage::new();
    let output = stage.output(&["run", "--", "/no/such/program"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("cannot start `/no/such/program`") && said.contains("because: "), "{said}");
    assert_eq!(std::fs::read_dir(stage.path("runs")).unwrap().count(), 0, "and leaves no recording behind");
}

#[test]
fn the_job_has_its_callers_descriptors_and_limits_and_nothing_of_ours() {
    let stage = Stage::new();
    let script = "cat; ulimit -n; ls /proc/self/fd; echo to-stderr >&2";
    let mut child = stage
        .command(&["run", "--quiet", "--", "bash", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through us\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let plain =
        std::process::Command::new("bash").args(["-c", "ulimit -n; ls /proc/self/fd"]).output().unwrap();
    let without_us = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("through us\n{without_us}"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "to-stderr\n", "quiet means nothing of ours");
}

#[test]
fn a_renamed_tree_is_seen_whole_with_its_roles_and_its_total_counts_shared_pages_once() {
    let stage = Stage::new();
    let (wrapper, launcher, trainer) =
        (stage.renamed("alpha"), stage.renamed("beta"), stage.renamed("gamma"));
    let job = [&wrapper, "tree", &launcher, "launch", &trainer, "train", "100", "4"];
    let running = stage.run_until_ready(&["--interval", "200ms"], &job);
    let told = eventually("a settled total", || {
        let snapshot = snapshot(&stage);
        let anchored =
            snapshot["processes"].as_array()?.iter().filter(|one| !one["pss_bytes"].is_null()).count();
        (anchored == 7).then_some(snapshot)
    });
    let pids: Vec<u64> =
        told["processes"].as_array().unwrap().iter().map(|p| p["key"]["pid"].as_u64().unwrap()).collect();
    let truth: u64 = pids.iter().map(|pid| pss_of(*pid)).sum();
    let (total, sum) =
        (told["total"]["bytes"].as_u64().unwrap(), told["total"]["rss_sum_bytes"].as_u64().unwrap());
    assert!(total.abs_diff(truth) * 20 < truth, "total {total}, PSS says {truth}");
    assert!(sum > 2 * truth, "a plain sum of RSS doubles: {sum} against {truth}");
    assert_eq!(running.finish().0, 0);

    let recording = stage.recording();
    assert_eq!(recording.meta.state, Some(RunState::Finished));
    let roles: BTreeMap<u32, String> = roles_of(&recording)
        .into_iter()
        .map(|found| (found.process.pid, found.role.word().to_owned()))
        .collect();
    let role_of = |program: &str, execed: bool| -> Vec<&str> {
        let ours = recording
            .processes
            .iter()
            .filter(|p| p.argv.first().is_some_and(|word| word == program) && p.execed == execed);
        ours.map(|process| roles[&process.key.pid].as_str()).collect()
    };
    assert_eq!(role_of(&wrapper, true), ["wrapper"]);
    assert_eq!(role_of(&launcher, true), ["wrapper"]);
    assert_eq!(role_of(&trainer, true), ["trainer"]);
    assert_eq!(role_of(&trainer, false), ["loader worker"; 4]);
    let peak = summarize(&recording).total.peak_bytes.0;
    assert!(peak.abs_diff(truth) * 20 < truth, "replay says {peak}, PSS said {truth}");
}

fn pss_of(pid: u64) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find(|line| line.starts_with("Pss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_storm_of_short_lives_is_counted_by_every_source_of_events() {
    for (name, source) in [("connector", Source::Connector), ("perf", Source::Perf)] {
        let stage = Stage::new();
        let file = stage.path("run.tide");
        let actor = stage.renamed("storm");
        let output = stage.output(&[
            "run",
            "--source",
            name,
            "--out",
            file.to_str().unwrap(),
            "--",
            &actor,
            "storm",
            "200",
            "20",
        ]);
        assert_eq!(output.status.code(), Some(0));
        let recording = read(&file);
        assert_eq!(recording.meta.source, Some(source), "{name} works on this machine as root");
        assert_eq!(recording.processes.len(), 201, "the actor and its 200 children by {name}");
        let lives =
            recording.processes.iter().filter(|process| process.died.is_some_and(|died| died > process.born));
        assert_eq!(lives.count(), 201, "each with the length of its life");
        if source == Source::Connector {
            let codes =
                recording.processes.iter().filter(|process| process.exit == Some(Exit::Code(7))).count();
            assert_eq!(codes, 200, "and the code of its end");
        }
    }
}

#[test]
fn without_events_what_lives_longer_than_a_tick_is_seen_and_the_file_says_so() {
    let stage = Stage::new();
    let trainer = stage.renamed("gamma");
    let flags = ["--source", "listing", "--interval", "100ms"];
    let running = stage.run_until_ready(&flags, &[&trainer, "train", "50", "3"]);
    eventually("all four seen", || (snapshot(&stage)["processes"].as_array()?.len() == 4).then_some(()));
    let (code, said) = running.finish();
    assert_eq!(code, 0);
    assert!(said.contains("processes shorter than a tick"), "{said}");
    let recording = stage.recording();
    assert_eq!(recording.meta.source, Some(Source::Listing));
    assert_eq!(
        recording.processes.iter().filter(|process| !process.execed).count(),
        3,
        "forked without exec"
    );
}

#[test]
fn a_daemonised_grandchild_is_kept_and_named_when_it_survives() {
    let stage = Stage::new();
    let actor = stage.renamed("delta");
    let mut running = {
        let file = stage.path("run.tide");
        let mut command =
            stage.command(&["run", "--out", file.to_str().unwrap(), "--", &actor, "daemon", "20000"]);
        command.env_remove("TERM");
        support::Running::start(command, file)
    };
    let line = running.wait_for_line("daemon ");
    let pid: u32 = line.split(' ').nth(1).unwrap().parse().unwrap();
    eventually("the daemon is sampled", || {
        let snapshot = snapshot(&stage);
        let seen = snapshot["processes"].as_array()?.iter().find(|one| one["key"]["pid"] == pid)?;
        (seen["rss_bytes"].as_u64()? > 8 << 20).then_some(())
    });
    let (code, said) = running.finish();
    assert_eq!(code, 0);
    assert!(lives(pid), "lowtide ends with the command and leaves the daemon alone");
    assert!(said.contains(&format!("process {pid} runs on")), "{said}");
    let recording = stage.recording();
    assert!(recording.events.iter().any(|event| event.kind == EventKind::Survivors));
    let daemon = recording.processes.iter().find(|process| process.key.pid == pid).unwrap();
    assert_eq!(daemon.died, None);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
}

#[test]
fn un_sharing_that_no_rss_shows_is_written_down() {
    let stage = Stage::new();
    let actor = stage.renamed("epsilon");
    let running = stage.run_until_ready(&["--interval", "200ms"], &[&actor, "unshare", "100"]);
    let reader_file = running.file.clone();
    let text = eventually("an un-sharing event", || {
        let recording = read(&reader_file);
        recording
            .events
            .iter()
            .find(|event| event.kind == EventKind::Unsharing)
            .map(|event| event.text.clone())
    });
    assert!(text.contains("shared with its parent"), "{text}");
    running.finish();
    let recording = stage.recording();
    let child = recording.processes.iter().find(|process| !process.execed).unwrap().key;
    let rows: Vec<_> = recording.samples.iter().filter(|row| row.process == child).collect();
    let rss: Vec<Bytes> = rows.iter().map(|row| row.rss.last).collect();
    let (low, high) = (rss.iter().min().unwrap(), rss.iter().max().unwrap());
    assert!(high.distance(*low) < Bytes::from_mib(20), "RSS is flat: {low} to {high}");
    let private: Vec<Bytes> = rows.iter().filter_map(|row| row.pss).map(|pss| pss.private_dirty).collect();
    assert!(private.last().unwrap().saturating_sub(private[0]) > Bytes::from_mib(15), "{private:?}");
}

#[test]
fn a_tree_of_two_thousand_is_followed() {
    let stage = Stage::new();
    let actor = stage.renamed("crowd");
    let running = stage.run_until_ready(&["--interval", "1s"], &[&actor, "crowd", "2000"]);
    eventually("all of them sampled", || {
        let snapshot = snapshot(&stage);
        let sampled =
            snapshot["processes"].as_array()?.iter().filter(|one| one["rss_bytes"].as_u64() > Some(0));
        (sampled.count() == 2001).then_some(())
    });
    assert_eq!(running.finish().0, 0);
    let recording = stage.recording();
    assert_eq!(recording.processes.len(), 2001);
    assert!(recording.processes.iter().all(|process| process.died.is_some()));
}

#[test]
fn a_peak_between_two_ticks_is_known_from_the_kernel() {
    let stage = Stage::new();
    let file = stage.path("run.tide");
    let actor = stage.renamed("fast");
    stage.output(&[
        "run",
        "--interval",
        "20ms",
        "--out",
        file.to_str().unwrap(),
        "--",
        &actor,
        "fast",
        "300",
    ]);
    let recording = read(&file);
    let peak = with_argument(&recording, "fast")[0].peak_rss.unwrap();
    assert!(peak > Bytes::from_mib(300), "{peak}");
}

#[test]
fn two_runs_at_once_never_collide() {
    let stage = Stage::new();
    let start =
        || stage.command(&["run", "--quiet", "--", "sleep", "0.3"]).stdin(Stdio::null()).spawn().unwrap();
    let mut both: Vec<_> = (0..8).map(|_| start()).collect();
    assert!(both.iter_mut().all(|child| child.wait().unwrap().success()));
    let files = std::fs::read_dir(stage.path("runs")).unwrap().count();
    assert_eq!(files, 8, "one closed file each, nothing beside them");
}

#[test]
fn a_hook_gets_the_summary_at_the_end() {
    let stage = Stage::new();
    let got = stage.path("got.json");
    let hook = format!("end=cat > {}", got.display());
    let early = stage.path("verdict.json");
    let verdict = format!("verdict=cat > {}", early.display());
    stage.output(&["run", "--quiet", "--on", &hook, "--on", &verdict, "--", "sh", "-c", "exit 5"]);
    assert!(!early.exists(), "too early is no verdict");
    let facts: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(got).unwrap()).unwrap();
    assert_eq!(facts["exit"]["code"], 5);
    assert_eq!(facts["schema"], "lowtide.summary/1");
}

#[test]
fn a_command_without_dashes_before_it_is_told_where_they_belong() {
    let stage = Stage::new();
    let output = stage.output(&["run", "--name", "x", "python3", "train.py"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.ends_with("before the command: lowtide run --name x -- python3 train.py\n"), "{said}");
    let other = String::from_utf8(stage.output(&["run", "--nosuch", "--", "true"]).stderr).unwrap();
    assert!(!other.contains("hint: put"), "{other}");
}

#[test]
fn help_can_be_asked_for_by_a_word() {
    let stage = Stage::new();
    for (word, flag) in [(&["help"][..], &["--help"][..]), (&["help", "scan"], &["scan", "--help"])] {
        let (word, flag) = (stage.output(word), stage.output(flag));
        assert_eq!(word.status.code(), Some(0));
        assert_eq!(String::from_utf8(word.stdout).unwrap(), String::from_utf8(flag.stdout).unwrap());
    }
    let unknown = stage.output(&["help", "nosuch"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no command `nosuch`"));
}

#[test]
fn what_no_sample_saw_is_not_known_and_not_nothing() {
    let file = tempfile::tempdir().unwrap();
    let stage = Stage::new();
    let json = |format: &str| {
        let name = file.path().join(format);
        let out = ["run", "--format", format, "--interval", "10m", "--out", name.to_str().unwrap(), "--"];
        (stage.output(&[&out[..], &["true"]].concat()).stderr, read(&name).samples.is_empty())
    };
    let (said, empty) = json("text");
    let said = String::from_utf8(said).unwrap();
    assert!(!empty || said.contains("tree peak   not known: it ended before its first sample"), "{said}");
    let (told, empty) = json("json");
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    assert_eq!(told["summary"]["total"].is_null(), empty, "{told}");
}
