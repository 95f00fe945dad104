//! Writes a recording in forms other programs read: CSV for tables, Chrome/Perfetto JSON for timelines.

mod perfetto;

pub use perfetto::perfetto;

use lowtide_model::{Bytes, ProcKey, Process, Recording};
use std::collections::BTreeMap;
use std::io::{Result, Write};

const HEAD: &str = "t_s,pid,start_ticks,comm,ticks,rss_bytes,rss_min_bytes,rss_max_bytes,anon_bytes,anon_min_bytes,\
anon_max_bytes,file_bytes,shmem_bytes,swap_bytes,locked_bytes,size_bytes,threads,minor_faults,major_faults,cpu_s,\
pss_bytes,private_bytes,shared_bytes,step";

/// One line a sample row; an unknown value is an empty field. `step` is the newest step that was marked before.
pub fn csv(recording: &Recording, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{HEAD}")?;
    let names = names(recording);
    let mut steps =
        recording.marks.iter().filter(|mark| mark.kind == lowtide_model::MarkKind::Step).peekable();
    let mut step = None;
    for row in &recording.samples {
        while let Some(mark) = steps.next_if(|mark| mark.tick <= row.tick) {
            step = Some(mark.number);
        }
        let comm = names.get(&row.process).map_or("", |process| process.comm.as_str());
        let (key, rss) = (row.process, row.rss);
        write!(
            out,
            "{:.3},{},{},{},{}",
            row.tick.seconds(),
            key.pid,
            key.start_ticks,
            quoted(comm),
            row.ticks
        )?;
        write!(out, ",{},{},{}", rss.last.0, rss.min.0, rss.max.0)?;
        let anon = row.anon;
        fields(out, &[anon.map(|span| span.last), anon.map(|span| span.min), anon.map(|span| span.max)])?;
        fields(out, &[row.file, row.shmem, row.swap, row.locked, Some(row.size)])?;
        let threads = row.threads.map(|count| count.to_string()).unwrap_or_default();
        write!(out, ",{threads},{},{},{:.3}", row.minor_faults, row.major_faults, row.cpu_ns as f64 / 1e9)?;
        fields(
            out,
            &[row.pss.map(|pss| pss.pss), row.pss.map(|pss| pss.private), row.pss.map(|pss| pss.shared)],
        )?;
        writeln!(out, ",{}", step.map(|number| number.to_string()).unwrap_or_default())?;
    }
    Ok(())
}

fn fields(out: &mut dyn Write, sizes: &[Option<Bytes>]) -> Result<()> {
    sizes.iter().try_for_each(|size| match size {
        Some(size) => write!(out, ",{}", size.0),
        None => write!(out, ","),
    })
}

/// A field as RFC 4180 has it. A leading sign would be run as a formula by spreadsheets.
fn quoted(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let safe = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if safe.contains([',', '"']) { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
}

fn names(recording: &Recording) -> BTreeMap<ProcKey, &Process> {
    recording.processes.iter().map(|process| (process.key, process)).collect()
}
