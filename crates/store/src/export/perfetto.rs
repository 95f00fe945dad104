//! The Chrome trace event format, which ui.perfetto.dev and Chrome's own viewer open: counters a process, marks, events.

use super::names;
use lowtide_model::{Mark, MarkPhase, Recording, SampleRow, Tick};
use serde_json::{Value, json};
use std::io::{Result, Write};

/// Rows of the machine and of cgroups stand under this pid, which no process has.
const MACHINE: u32 = 0;

/// Writes the recording as one JSON object of trace events.
pub fn perfetto(recording: &Recording, out: &mut dyn Write) -> Result<()> {
    out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
    let mut events = Events { out, first: true };
    processes(recording, &mut events)?;
    for row in &recording.samples {
        events.put(&counter(row.process.pid, row.tick, "memory", &memory(row)))?;
    }
    for row in &recording.cgroups {
        let args = json!({ "usage": row.usage.last.0, "working_set": row.working_set().0 });
        events.put(&counter(MACHINE, row.tick, &format!("cgroup {}", row.path), &args))?;
    }
    for row in &recording.host {
        events.put(&counter(
            MACHINE,
            row.tick,
            "host available",
            &json!({ "bytes": row.available.last.0 }),
        ))?;
    }
    for row in &recording.gpus {
        let pid = row.process.map_or(MACHINE, |key| key.pid);
        events.put(&counter(
            pid,
            row.tick,
            &format!("gpu {}", row.gpu),
            &json!({ "used": row.used.last.0 }),
        ))?;
    }
    recording.marks.iter().try_for_each(|mark| events.put(&mark_event(mark)))?;
    for event in &recording.events {
        let pid = event.process.map_or(MACHINE, |key| key.pid);
        let scope = if event.process.is_some() { "p" } else { "g" };
        let args = json!({ "text": event.text, "data": event.data });
        events.put(&json!({ "ph": "i", "s": scope, "name": event.kind, "pid": pid, "tid": 0, "ts": us(event.tick), "args": args }))?;
    }
    events.out.write_all(b"\n]}\n")
}

struct Events<'a> {
    out: &'a mut dyn Write,
    first: bool,
}

impl Events<'_> {
    fn put(&mut self, event: &Value) -> Result<()> {
        let comma = if std::mem::replace(&mut self.first, false) { "" } else { ",\n" };
        write!(self.out, "{comma}{event}")
    }
}

fn us(tick: Tick) -> f64 {
    tick.0 as f64 / 1e3
}

fn processes(recording: &Recording, events: &mut Events<'_>) -> Result<()> {
    events
        .put(&json!({ "ph": "M", "name": "process_name", "pid": MACHINE, "args": { "name": "machine" } }))?;
    for process in names(recording).values() {
        let line = if process.argv.is_empty() { process.comm.clone() } else { process.argv.join(" ") };
        let name: String = line.chars().take(120).collect();
        events.put(
            &json!({ "ph": "M", "name": "process_name", "pid": process.key.pid, "args": { "name": name } }),
        )?;
    }
    Ok(())
}

fn counter(pid: u32, tick: Tick, name: &str, args: &Value) -> Value {
    json!({ "ph": "C", "name": name, "pid": pid, "tid": 0, "ts": us(tick), "args": args })
}

/// Stacked in the viewer, so parts that add up to RSS where the parts are known.
fn memory(row: &SampleRow) -> Value {
    match (row.anon, row.file, row.shmem) {
        (Some(anon), Some(file), Some(shmem)) => {
            json!({ "anon": anon.last.0, "file": file.0, "shmem": shmem.0 })
        }
        (Some(_) | None, _, _) => json!({ "rss": row.rss.last.0 }),
    }
}

fn mark_event(mark: &Mark) -> Value {
    let word = mark.kind.word();
    let phase = match mark.phase {
        MarkPhase::Start => "b",
        MarkPhase::End => "e",
        MarkPhase::Point => "n",
    };
    let pid = mark.process.map_or(MACHINE, |key| key.pid);
    let args = json!({ "number": mark.number, "rank": mark.rank, "extra": mark.extra });
    let id = format!("{word}-{}", mark.rank.unwrap_or(0));
    json!({ "ph": phase, "cat": "mark", "id": id, "name": word, "pid": pid, "tid": 0, "ts": us(mark.tick), "args": args })
}
