//! What a recorder shows on the job's own terminal: its title, and rare whole lines. Nothing else, ever.

use super::plain;
use crate::render;
use lowtide_run::{Began, Listener};
use lowtide_wire::Snapshot;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

/// Listens to a recorder for the person at the terminal.
pub(crate) struct Console {
    quiet: bool,
    /// Say on standard output where the recording and the socket are, for the process that started us.
    introduces: bool,
    titled: bool,
}

impl Console {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet, introduces: false, titled: false }
    }

    /// For a recorder without a terminal, started by `watch`.
    pub(crate) fn for_recorder() -> Self {
        Self { quiet: true, introduces: true, titled: false }
    }

    /// Whether the title may be set: a terminal that is ours to write to at this moment.
    fn may_title(&self) -> bool {
        let stderr = std::io::stderr();
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let in_front = || nix::unistd::tcgetpgrp(stderr.as_fd()) == Ok(nix::unistd::getpgrp());
        !self.quiet && !dumb && stderr.is_terminal() && in_front()
    }

    /// Gives the terminal its old title back.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.titled) {
            render::complain("\x1b[23;2t");
        }
    }
}

impl Listener for Console {
    fn began(&mut self, run: &Began) {
        if self.introduces {
            // As bytes: a path need not be text.
            let socket = run.socket.as_ref().map(|path| path.as_os_str().as_bytes());
            let here = (run.recording.as_os_str().as_bytes(), socket);
            let _ = render::say(&format!("{}\n", serde_json::to_string(&here).unwrap_or_default()));
        }
    }

    fn wants_ticks(&self) -> bool {
        self.may_title()
    }

    fn tick(&mut self, snapshot: &Snapshot) {
        if !std::mem::replace(&mut self.titled, true) {
            render::complain("\x1b[22;2t");
        }
        render::complain(&format!("\x1b]2;{}\x07", title(snapshot)));
    }

    fn say(&mut self, text: &str) {
        self.warn(text);
    }

    fn warn(&mut self, text: &str) {
        if !self.quiet {
            // From the start of a line: the job may have left the cursor behind a progress bar.
            let start = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
            render::complain(&format!("{start}lowtide: {}\n", plain(text, 400)));
        }
    }
}

/// Step, memory, rate, limit: what fits into a title.
fn title(snapshot: &Snapshot) -> String {
    let rate =
        snapshot.bytes_per_minute.map(|rate| format!(" {}/min", lowtide_model::ByteDelta(rate as i64)));
    let limit = snapshot
        .limits
        .first()
        .map(|held| format!(", {} left of {}", held.headroom(), super::limit_name(held)));
    let name = plain(&snapshot.name, 40);
    let progress = crate::screen::words::progress(snapshot).map(|words| format!("{words}, "));
    let parts = [progress, Some(snapshot.total.bytes.to_string()), rate, limit];
    format!("{name}: {}", parts.map(Option::unwrap_or_default).concat())
}
