//! `lowtide serve` from the outside, over its socket: what it says of its own build, and how many it lets in.
//!
//! What a page shows is tested in a browser (tests/browser).

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod recorded;
mod support;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use support::{PATIENCE, Running, Stage, actor, lowtide};

/// As many as the server lets in at once.
const ROOM: usize = 1024;

/// A server over the folder of this stage.
struct Served {
    server: Running,
    socket: PathBuf,
}

impl Served {
    /// As most shells start it: with 1,024 descriptors, and more for the asking.
    fn start(stage: &Stage) -> Self {
        let socket = stage.path("s.sock");
        let mut command = std::process::Command::new("sh");
        let program = lowtide();
        command.args(["-c", "ulimit -Sn 1024 && exec \"$@\"", "sh"]).arg(program).arg("serve");
        command.arg("--dir").arg(stage.folder.path()).arg("--socket").arg(&socket);
        command
            .env("XDG_RUNTIME_DIR", stage.path("runtime"))
            .env("XDG_CACHE_HOME", stage.path("runtime"))
            .env("HOME", stage.path("runtime"));
        let mut server = Running::start(command, PathBuf::new());
        server.wait_for_line("recordings of");
        Self { server, socket }
    }

    fn ask(&self, path: &str) -> UnixStream {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut text = String::new();
        self.ask(path).read_to_string(&mut text).unwrap();
        text
    }

    /// Somebody who looks on, once the server has let them in.
    fn viewer(&self) -> UnixStream {
        let mut stream = self.ask("/api/v1/events/run");
        assert!(begin(&mut stream).starts_with("HTTP/1.1 200"));
        stream
    }

    fn told_to_stop(mut self) {
        kill(Pid::from_raw(self.server.pid()), Signal::SIGTERM).unwrap();
        assert!(self.server.child.wait().unwrap().success());
    }
}

fn begin(stream: &mut UnixStream) -> String {
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    String::from_utf8_lossy(&head).into_owned()
}

#[test]
fn a_build_without_node_says_so_and_one_with_it_does_not() {
    let stage = Stage::new();
    recorded::Job::default().write(&stage.path("run.tide"));
    let mut served = Served::start(&stage);
    let script = served.get("/app.js");
    let built = !script.split_once("\r\n\r\n").unwrap().1.is_empty();
    for path in ["/", "/run/run", "/compare?a=run&b=run"] {
        let page = served.get(path);
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("<svg"), "{path}: {page}");
        let told = page.contains("Built without Node: the charts stand still");
        assert_eq!((told, page.contains("app.js")), (!built, built), "{path}");
    }
    let report = served.get("/api/v1/report/run");
    assert_eq!(report.contains("Built without Node: the charts stand still"), !built);
    kill(Pid::from_raw(served.server.pid()), Signal::SIGTERM).unwrap();
    let rest: Vec<String> = served.server.stdout.by_ref().lines().map_while(Result::ok).collect();
    assert_eq!(
        rest.iter().any(|line| line == "built without Node: the charts stand still"),
        !built,
        "{rest:?}"
    );
    assert!(served.server.child.wait().unwrap().success());
}

#[test]
fn beyond_1024_visitors_the_next_waits_for_a_place_and_the_server_still_reads_and_stops() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert!(hard > 2 * ROOM as u64, "this test needs {} descriptors", 2 * ROOM);
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(4 * ROOM as u64), hard).unwrap();
    let stage = Stage::new();
    let job = stage.run_until_ready(&["--quiet"], &[actor().to_str().unwrap(), "crowd", "1"]);
    let served = Served::start(&stage);
    let mut viewers: Vec<UnixStream> = (0..ROOM).map(|_| served.viewer()).collect();
    let mut next = served.ask("/run/run");
    next.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(next.read(&mut [0; 1]).is_err(), "it has no place yet");
    viewers.pop();
    next.set_read_timeout(Some(PATIENCE)).unwrap();
    // With a place comes the whole page: descriptors for the recording were kept back.
    assert!(begin(&mut next).starts_with("HTTP/1.1 200"));
    let mut page = String::new();
    next.read_to_string(&mut page).unwrap();
    assert!(page.contains("</html>"), "{page}");
    viewers.push(served.viewer());
    served.told_to_stop();
    drop(viewers);
    assert_eq!(job.finish().0, 0);
}

#[test]
fn a_file_of_which_no_peak_is_known_has_none_in_the_list() {
    let stage = Stage::new();
    std::fs::write(stage.path("broken.tide"), "not a recording").unwrap();
    let served = Served::start(&stage);
    let told = served.get("/api/v1/runs");
    assert!(told.contains("\"peak_bytes\":null"), "{told}");
    served.told_to_stop();
}
