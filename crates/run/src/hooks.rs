//! `--on WHEN=CMD`: the user's own command when something happens, with the facts as JSON on its standard input.
//!
//! This is all the integration there is: Slack, mail or `scontrol requeue` are one shell line away.

use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::Serialize;
use std::io::{Seek, Write};
use std::process::{Child, Command};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// A hook at the end may take this long; then lowtide leaves without it.
const PATIENCE: Duration = Duration::from_secs(10);

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookWhen {
    /// The limit will be reached: said once.
    Forecast,
    /// The verdict is no longer "too early", or changed; at the end too, where it was not told before.
    Verdict,
    /// lowtide was asked to stop the job (TERM, INT, HUP, QUIT).
    Stop,
    /// The job ended.
    End,
}

impl HookWhen {
    /// The word on the command line and in the JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Forecast => "forecast",
            Self::Verdict => "verdict",
            Self::Stop => "stop",
            Self::End => "end",
        }
    }
}

impl FromStr for HookWhen {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        [Self::Forecast, Self::Verdict, Self::Stop, Self::End]
            .into_iter()
            .find(|when| when.word() == word)
            .ok_or(())
    }
}

/// One hook.
#[derive(Clone, Debug)]
pub struct Hook {
    /// When it runs.
    pub when: HookWhen,
    /// What it runs, by `sh -c`.
    pub command: String,
}

/// The hooks of a run.
#[derive(Debug, Default)]
pub struct Hooks {
    hooks: Vec<Hook>,
    running: Vec<Child>,
}

impl Hooks {
    /// Those the user gave.
    pub fn new(hooks: Vec<Hook>) -> Self {
        Self { hooks, running: Vec::new() }
    }

    /// Whether anybody asked for this moment.
    pub(crate) fn wants(&self, when: HookWhen) -> bool {
        self.hooks.iter().any(|hook| hook.when == when)
    }

    /// Starts every hook for this moment. Gives a sentence for each that could not be started.
    pub fn fire(&mut self, when: HookWhen, facts: &impl Serialize) -> Vec<String> {
        let mut troubles = Vec::new();
        for hook in self.hooks.iter().filter(|hook| hook.when == when) {
            match start(hook, facts) {
                Ok(child) => self.running.push(child),
                Err(error) => {
                    troubles.push(format!("cannot run the {} hook `{}`: {error}", when.word(), hook.command));
                }
            }
        }
        troubles
    }

    /// Whether this pid is a hook of ours and not a process of the job. Forgets it when it has ended.
    pub(crate) fn reap(&mut self) {
        self.running.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    /// Pids of hooks that still run.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.running.iter().map(Child::id)
    }

    /// Waits for those still running, within reason.
    pub fn wait(mut self) {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.reap();
            if self.running.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn start(hook: &Hook, facts: &impl Serialize) -> std::io::Result<Child> {
    let mut text = serde_json::to_vec(facts).unwrap_or_default();
    text.push(b'\n');
    // A file in memory and no pipe: a command that does not read its input can't hold us up.
    let mut stdin = std::fs::File::from(memfd_create(c"lowtide-hook", MFdFlags::MFD_CLOEXEC)?);
    stdin.write_all(&text)?;
    stdin.rewind()?;
    let mut command = Command::new("sh");
    command.args(["-c", &hook.command]).env("LOWTIDE_EVENT", hook.when.word()).stdin(stdin);
    command.spawn().inspect(|child| not_spared(child.id()))
}

/// A hook is the user's, not ours: if the kernel was asked to spare us, that is not for it.
fn not_spared(pid: u32) {
    let file = format!("/proc/{pid}/oom_score_adj");
    let score = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if score.is_some_and(|score| score < 0) {
        let _ = std::fs::write(file, "0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_gets_the_facts_on_its_standard_input() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("got");
        let command = format!("cat > {}; echo $LOWTIDE_EVENT >> {}", file.display(), file.display());
        let mut hooks = Hooks::new(vec![Hook { when: HookWhen::End, command }]);
        assert!(hooks.fire(HookWhen::Stop, &serde_json::json!({})).is_empty());
        hooks.fire(HookWhen::End, &serde_json::json!({"exit": 3}));
        hooks.wait();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "{\"exit\":3}\nend\n");
    }

    #[test]
    fn every_moment_has_a_word_that_reads_back() {
        for when in [HookWhen::Forecast, HookWhen::Verdict, HookWhen::Stop, HookWhen::End] {
            assert_eq!(when.word().parse(), Ok(when));
        }
        assert!("noon".parse::<HookWhen>().is_err());
    }
}
