//! `lowtide run --push`: the job and its recording end as they would without it, whatever the receiver does.

#![allow(clippy::unwrap_used, reason = "a test that can't set its stage should fail loudly")]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;
use support::{PATIENCE, Stage};

/// The end of a recording comes this soon after its job's; waiting for the pusher made it 3 s.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Takes whatever is sent and says so. Gives its address and what tells of each request.
fn receiver() -> (String, mpsc::Receiver<usize>) {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", door.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in door.incoming().map_while(Result::ok) {
            let tell = tell.clone();
            std::thread::spawn(move || answer(stream, &tell));
        }
    });
    (address, told)
}

/// Every request of one connection, for as long as it stays open.
fn answer(mut stream: TcpStream, tell: &mpsc::Sender<usize>) {
    let (mut seen, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stream.read(&mut part) {
        seen.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&seen).to_ascii_lowercase();
        let Some(head) = text.find("\r\n\r\n").map(|end| &text[..end]) else { continue };
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let body = seen.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        if seen.len() < body + length.unwrap() {
            continue;
        }
        seen.clear();
        stream.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n").unwrap();
        let _ = tell.send(length.unwrap());
    }
}

/// How long after its command a recording ended.
fn later(stage: &Stage) -> Duration {
    let recording = stage.recording();
    let job = recording.processes.iter().find_map(|process| process.died).unwrap();
    recording.meta.ended.unwrap().since(job)
}

fn push(stage: &Stage, url: &str, job: &[&str]) -> (Option<i32>, String) {
    let file = stage.path("run.tide");
    let flags = ["run", "--out", file.to_str().unwrap(), "--push", url, "--"];
    let output = stage.output(&[&flags, job].concat());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_recording_ends_with_its_job_and_all_of_it_is_sent() {
    let stage = Stage::new();
    let (address, told) = receiver();
    let (code, said) = push(&stage, &address, &["sh", "-c", "exit 3"]);
    assert_eq!(code, Some(3));
    assert!(!said.contains("not all was sent"), "{said}");
    assert!(told.recv_timeout(PATIENCE).unwrap() > 0);
    assert!(later(&stage) < AT_ONCE, "{:?}", later(&stage));
}

#[test]
fn a_receiver_that_is_away_is_told_with_the_reason_and_changes_nothing_else() {
    let stage = Stage::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, said) = push(&stage, &format!("http://{free}"), &["true"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("does not answer; because: ") && said.contains("refused"), "{said}");
    assert!(said.contains("; later: lowtide export "), "{said}");
    assert!(later(&stage) < AT_ONCE, "{:?}", later(&stage));
}

#[test]
fn what_is_no_address_is_refused_before_the_job_starts() {
    let stage = Stage::new();
    let touched = stage.path("touched");
    for bad in ["notaurl", "ftp://x"] {
        let (code, said) = push(&stage, bad, &["touch", touched.to_str().unwrap()]);
        assert_eq!(code, Some(2));
        assert!(said.contains("an address like http://vm:8428"), "{said}");
    }
    assert!(!touched.exists());
}
