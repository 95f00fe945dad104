//! Lists the checkpoints of a folder as JSON lines, newest first: what `--guard` would resume from, to be seen by hand.
//!
//!     cargo run -p lowtide-run --example checkpoints -- FOLDER ...

use lowtide_run::checkpoints::{Places, State, find};
use std::io::Write;

fn main() -> std::io::Result<()> {
    let mut places = Places::default();
    std::env::args_os().skip(1).for_each(|folder| places.name(folder));
    let mut out = std::io::stdout().lock();
    for found in find(&places) {
        let (state, why) = match &found.state {
            State::Complete => ("complete", None),
            State::Unfinished { why } => ("unfinished", Some(why)),
            State::Broken { why } => ("broken", Some(why)),
        };
        let (kind, bytes) = (found.kind.to_string(), found.bytes.0);
        let line = serde_json::json!({
            "path": found.path, "kind": kind, "step": found.step, "bytes": bytes, "state": state, "why": why,
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}
