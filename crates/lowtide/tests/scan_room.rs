//! Scans where memory is short, in a real cgroup: refused, or ended first; never what kills the job.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use support::cgroup::Cgroup;
use support::{Stage, lives, lowtide};

/// Takes as many KiB as each line of its input says, and answers when it has them.
const TAKER: &str = "
import sys
held = []
print('ready', flush=True)
for line in sys.stdin:
    held.append(bytearray(b'x') * (int(line) << 10))
    print('took', flush=True)
";

struct Taker(Child, BufReader<ChildStdout>);

impl Taker {
    fn start(cgroup: &Cgroup) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", TAKER]);
        let mut child = cgroup.inside(&command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut taker = Self(child, out);
        assert_eq!(taker.hears(), "ready");
        taker
    }

    fn hears(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn take(&mut self, kib: u64) -> String {
        writeln!(self.0.stdin.as_mut().unwrap(), "{kib}").unwrap();
        self.hears()
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_scan_in_a_nearly_full_cgroup_is_refused_and_the_job_goes_on() {
    let Some(cgroup) = Cgroup::new(200 << 20) else { return };
    let stage = Stage::new();
    let mut job = Taker::start(&cgroup);
    assert_eq!(job.take(130 << 10), "took");
    let pid = job.0.id();
    let output = cgroup.inside(&stage.command(&["scan", &pid.to_string()])).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("of memory is left here"), "{said}");
    assert_eq!(job.take(1 << 10), "took", "the job lives and works");
    // With the room of the whole machine it is scanned.
    let outside = stage.output(&["scan", &pid.to_string()]);
    assert!(outside.status.success(), "{}", String::from_utf8_lossy(&outside.stderr));
}

#[test]
fn when_memory_runs_out_during_a_scan_the_kernel_takes_the_helper_before_the_job() {
    let Some(cgroup) = Cgroup::new(96 << 20) else { return };
    let mut job = Taker::start(&cgroup);
    // A real helper that waits for its task: all it does to be expendable is done before that.
    let mut command = Command::new(lowtide());
    command.arg("scan-helper");
    let mut helper = cgroup.inside(&command).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let score = || std::fs::read_to_string(format!("/proc/{}/oom_score_adj", helper.id()));
    support::eventually("the helper has made itself expendable", || {
        score().is_ok_and(|score| score.trim() == "1000").then_some(())
    });
    // A little at a time, so that what the helper has is enough to go on with.
    let mut goes_on = true;
    let ended = support::eventually("the kernel has taken the helper", || {
        // Once the kernel has taken one, a job that asks for more before that one is gone would be the next.
        for _ in 0..16 {
            if goes_on && lives(helper.id()) && cgroup.kills() == 0 {
                goes_on = job.take(32) == "took";
            }
        }
        helper.try_wait().unwrap()
    });
    assert_eq!(ended.signal(), Some(9), "{ended}");
    // The very request for which the helper was taken may come too early for what it gives back, on a busy machine: then
    // the kernel takes a second one. It never begins with the job.
    assert_eq!(cgroup.kills(), if goes_on { 1 } else { 2 });
    assert!(!goes_on || lives(job.0.id()));
}
