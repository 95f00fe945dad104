//! The end of a recording: the last rows, survivors, the header, and the file closed.

use super::{Ended, FAREWELL, Forwarder, Session, Subject};
use crate::hooks::HookWhen;
use crate::job::Terminal;
use crate::snapshot;
use lowtide_model::{EventKind, Exit, ProcKey, RunState};
use lowtide_probe::clock::boot_ns;
use lowtide_probe::tree::Change;
use lowtide_probe::{Root, stat_of};
use lowtide_store::StoreError;
use lowtide_verdict::Verdict;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// With all of the job gone its output is soon passed on; a reader that stopped reading is not waited for.
const RELAY_PATIENCE: Duration = Duration::from_secs(3);

impl Session<'_> {
    /// Says good-bye: the last rows, survivors, the header, and the file closed.
    pub(super) fn end(mut self) -> Ended {
        self.let_go_of_the_terminal();
        let until = boot_ns() + FAREWELL.as_nanos() as u64;
        let relay_until = boot_ns() + RELAY_PATIENCE.as_nanos() as u64;
        loop {
            self.live.now = self.crew.tick_of(boot_ns());
            self.reap();
            self.drain(boot_ns());
            let others = self.crew.members().any(|member| member.facts.key != self.live.root);
            let others = others || !self.live.deaths.is_empty();
            let waits = matches!(self.subject, Subject::Job(_)) && others;
            // A relay that still passes output on may find a step in it; what it said before it ended is heard after.
            let relays = self.relay_lives();
            self.answer();
            let patience = if others { until } else { relay_until };
            if !(waits || relays) || boot_ns() > patience {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.live.now = self.crew.tick_of(boot_ns());
        self.bury_root();
        let mut entries = Vec::new();
        if matches!(self.subject, Subject::Stranger(_)) {
            self.read_sharing(&mut entries);
        }
        self.rest_of_marks(&mut entries);
        self.crew.rest(&mut entries);
        self.places.rest(&mut entries);
        self.write(entries);
        let survivors = self.name_survivors();
        let snapshot = snapshot::Ending { exit: self.live.exit, running: false }.apply(self.snapshot());
        if let Some(socket) = &mut self.socket {
            socket.publish(&snapshot);
        }
        let exit = self.live.exit.unwrap_or(Exit::Unknown);
        let ooms = std::mem::take(&mut self.live.ooms);
        let guarded = self.watch.take().map(|watch| watch.report);
        let recording = self.close();
        Ended { exit, recording, survivors, ooms, guarded }
    }

    /// A guard holds the job's side of its terminal or pipes for the next start: a relay would wait for it.
    fn let_go_of_the_terminal(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.job.terminal = Terminal::Callers;
        }
    }

    fn relay_lives(&self) -> bool {
        let lives = |pid: &u32| stat_of(&Root::live(), *pid).known().is_some_and(|stat| !stat.is_dead());
        self.options.relay.as_ref().is_some_and(lives)
    }

    /// The command's own death, for a feed that could not tell it or has not yet.
    pub(super) fn bury_root(&mut self) {
        let (Some(exit), root) = (self.live.exit, self.live.root) else {
            return;
        };
        if self.crew.get(root).is_some() {
            let at_boot_ns = boot_ns();
            self.take_changes(vec![Change::Died { key: root, at_boot_ns, exit: Some(exit) }]);
        }
    }

    fn name_survivors(&mut self) -> Vec<(ProcKey, String)> {
        if !matches!(self.subject, Subject::Job(_)) {
            return Vec::new();
        }
        let name = |argv: &[String], comm: &str| {
            if argv.is_empty() { comm.to_owned() } else { argv.join(" ") }
        };
        let survivors: Vec<(ProcKey, String)> = self
            .crew
            .members()
            .map(|member| (member.facts.key, name(&member.facts.argv, &member.facts.comm)))
            .collect();
        for (key, command) in &survivors {
            self.event(EventKind::Survivors, Some(*key), format!("process {} runs on: {command}", key.pid));
        }
        survivors
    }

    /// Gives where the recording lies, which is elsewhere when the asked place could not be written. A verdict that is known
    /// only now is told to its hooks.
    fn close(self) -> Result<PathBuf, StoreError> {
        if let Subject::Job(Forwarder { witness: Some(witness), .. }) = self.subject {
            witness.dismiss();
        }
        let mut meta = self.meta;
        meta.ended = Some(self.live.now);
        meta.state = Some(RunState::Finished);
        meta.stall_ns = self.live.stall().as_nanos() as u64;
        meta.own_cpu_ns = self.live.own_cpu_ns();
        meta.job_peak_bytes = self.crew.waited_peak().map(|peak| peak.0);
        meta.own_peak_bytes = snapshot::own_peak().0;
        meta.dropped_rows = self.writer.health().dropped_rows;
        let closed = self.writer.finish(meta);
        // The file first: whoever stops us does not wait for a slow hook.
        let (mut hooks, mut judging) = (self.hooks, self.judging);
        if hooks.wants(HookWhen::Verdict)
            && let Some(verdict) =
                closed.as_ref().ok().and_then(|path| judging.verdict_news(&last_answer(path)?))
        {
            let troubles = hooks.fire(HookWhen::Verdict, &verdict);
            troubles.iter().for_each(|trouble| self.listener.warn(trouble));
        }
        hooks.wait();
        closed
    }
}

/// The answer on the closed file, so that the last one told is the one that everybody reads there.
fn last_answer(path: &Path) -> Option<Verdict> {
    let recording = lowtide_store::open(path).and_then(|mut reader| reader.recording()).ok()?;
    Some(lowtide_verdict::judge_recording(&recording).main)
}
