//! What runs here: recordings under way, and processes that look like a job.

use super::plain;
use super::table::{Align, Table};
use crate::duration;
use lowtide_probe::jobs::Candidate;
use lowtide_wire::Snapshot;

pub(crate) fn job_line(job: &Candidate) -> String {
    let memory = job.rss.saturating_add(job.rss_below);
    format!("{:>7}  {memory}  {}", job.key.pid, plain(&job.argv.join(" "), 80))
}

pub(crate) fn jobs_text(running: &[&Snapshot], jobs: &[Candidate]) -> String {
    let mut text = String::new();
    if !running.is_empty() {
        text.push_str("Recorded now (lowtide watch PID follows):\n");
        let mut table =
            Table::new(&[("pid", Align::Right), ("memory", Align::Right), ("command", Align::Left)]);
        for run in running {
            let first = run.processes.first().map_or(String::new(), |process| process.key.pid.to_string());
            table.row(vec![first, run.total.bytes.to_string(), plain(&run.command, 80)]);
        }
        text.push_str(&table.text());
    }
    if jobs.is_empty() {
        text.push_str("No other process looks like a job.\n");
        return text;
    }
    text.push_str("Likely jobs (lowtide watch PID records one from now on):\n");
    let heading =
        [("pid", Align::Right), ("own", Align::Right), ("below", Align::Right), ("age", Align::Right)];
    let mut columns = heading.to_vec();
    columns.push(("command", Align::Left));
    let mut table = Table::new(&columns);
    for job in jobs {
        let below = format!("{} in {}", job.rss_below, job.descendants);
        let command = plain(&job.argv.join(" "), 80);
        table.row(vec![
            job.key.pid.to_string(),
            job.rss.to_string(),
            below,
            duration::words(job.age),
            command,
        ]);
    }
    text.push_str(&table.text());
    text
}

pub(crate) fn jobs_json(running: &[&Snapshot], jobs: &[Candidate]) -> serde_json::Value {
    let job = |job: &Candidate| {
        serde_json::json!({"pid": job.key.pid, "argv": job.argv, "rss_bytes": job.rss, "below_bytes": job.rss_below,
            "descendants": job.descendants, "age_seconds": job.age.as_secs_f64()})
    };
    serde_json::json!({"recorded": running, "jobs": jobs.iter().map(job).collect::<Vec<_>>()})
}
