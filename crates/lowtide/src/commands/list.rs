//! `lowtide list`: the recordings of a folder.

use crate::cli::{Format, ListArgs};
use crate::failure::Failure;
use crate::render::{self, ListedRun};
use lowtide_store::Listed;
use std::process::ExitCode;

pub(crate) fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => lowtide_store::runs_dir()?,
    };
    let listed = if args.dir.is_none() && !dir.exists() { Vec::new() } else { lowtide_store::list(&dir)? };
    let runs: Vec<ListedRun> = listed.into_iter().map(look_inside).collect();
    match args.format {
        Format::Text => render::say(&render::list_text(&dir, &runs))?,
        Format::Json => render::say(&render::list_json(&runs))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads one recording at a time: a folder of them may not fit into memory at once.
fn look_inside(listed: Listed) -> ListedRun {
    let read = || lowtide_store::open(&listed.path)?.recording();
    let recording = listed.run.is_ok().then(|| read().ok()).flatten();
    let peak = recording.as_ref().filter(|recording| !recording.samples.is_empty());
    ListedRun {
        peak: peak.map(|recording| lowtide_verdict::summarize(recording).total.peak_bytes),
        note: recording.as_ref().and_then(lowtide_verdict::cut_off_note),
        listed,
    }
}
