//! A verdict as people read it: the answer in one sentence, then rows that each answer one question.
//!
//! The sentences themselves are the engine's; here they only get their place. Rows are wrapped in a terminal and left
//! whole in a file, so that a search finds them.

use super::plain;
use crate::commands::subject::{Answer, What};
use lowtide_model::Role;
use lowtide_verdict::{Kind, RoleFound, Together, Verdict};
use std::fmt::Write as _;

/// Room for the names of rows.
const NAMES: usize = 14;
/// A terminal narrower than this is not wrapped for.
const NARROWEST: usize = 50;

/// One answer on a page.
pub(crate) struct Page<'a> {
    pub(crate) answer: &'a Answer,
    /// Whether there are other answers, so that it needs its name.
    pub(crate) named: bool,
    pub(crate) why: bool,
    /// Columns to wrap at; none where nobody looks.
    pub(crate) width: Option<usize>,
}

impl Page<'_> {
    pub(crate) fn text(&self) -> String {
        let main = &self.answer.run.main;
        let mut rows = Rows::new(self.width);
        rows.sentence(&main.headline);
        if self.named {
            rows.row("Of", &self.answer.subject.label);
        }
        process(main, &mut rows);
        rows.row("Outcome", &main.outcome_words());
        body(main, &mut rows);
        for finding in &self.answer.run.findings {
            rows.text.push('\n');
            rows.sentence(&format!("also: {}", finding.headline));
            process(finding, &mut rows);
            rows.rows("Evidence", &finding.evidence);
            rows.rows("Do this", finding.advice.first());
        }
        if let What::Curve(curve) = &self.answer.subject.what {
            rows.rows("Read as", &curve.notes);
        }
        if self.why {
            self.reasoning(&mut rows);
        }
        rows.text
    }

    fn reasoning(&self, rows: &mut Rows) {
        let main = &self.answer.run.main;
        let weights = main.explanations.iter();
        let weights = weights.map(|e| format!("{} {:.3}: {}", e.kind.word(), e.weight, e.predicts));
        rows.rows("Why", main.why.iter().cloned().chain(weights));
        for finding in &self.answer.run.findings {
            rows.rows("Why, also", &finding.why);
        }
        let (short, known): (Vec<&RoleFound>, Vec<&RoleFound>) =
            self.answer.run.roles.iter().partition(|role| role.role == Role::Unknown);
        let one = |role: &RoleFound| format!("{} {}: {}", role.role.word(), role.process.pid, role.reason);
        let rest = match short.as_slice() {
            [] => None,
            [only] => Some(one(only)),
            many => Some(format!("{} more ended before they could be sampled", many.len())),
        };
        rows.rows("Roles", known.into_iter().map(one).chain(rest));
    }
}

fn process(verdict: &Verdict, rows: &mut Rows) {
    if let Some(words) = process_words(verdict) {
        rows.row("Process", &words);
    }
}

/// Which process an answer is about: its role, its number and its command.
pub(crate) fn process_words(verdict: &Verdict) -> Option<String> {
    let process = verdict.process.as_ref()?;
    let mut words = process.argv.iter().map(String::as_str);
    let program = words.next().map(|path| path.rsplit('/').next().unwrap_or(path));
    let command = plain(&program.into_iter().chain(words).collect::<Vec<_>>().join(" "), 80);
    Some(match process.with.len() {
        0 => format!("{} {}: {command}", process.role.word(), process.key.pid),
        with => format!("{} {}s, the largest {}: {command}", with + 1, process.role.word(), process.key.pid),
    })
}

fn body(main: &Verdict, rows: &mut Rows) {
    let matters = |line: &&String| main.matters.as_ref() == Some(*line);
    rows.rows("Evidence", main.evidence.iter().filter(|line| !matters(line)));
    let out = main.ruled_out.iter().map(|out| format!("{}: {}", out.kind.word(), out.because));
    rows.rows("Not", out);
    if main.verdict == Kind::TooEarly {
        let fits = main.explanations.iter();
        let futures = fits.map(|e| format!("{} ({:.0} %): {}", e.kind.word(), 100.0 * e.weight, e.predicts));
        rows.rows("Still possible", futures);
    }
    rows.rows("It matters", &main.matters);
    rows.rows("Do this", main.advice.first());
    rows.rows("Then", main.advice.iter().skip(1));
    rows.row("To be sure", &main.disprove);
}

/// Runs of one program judged as one.
pub(crate) fn together_text(together: &Together, width: Option<usize>) -> String {
    let mut rows = Rows::new(width);
    rows.sentence(&together.headline);
    rows.rows("Evidence", &together.evidence);
    rows.text
}

/// Rows under a sentence: the name once, then its lines.
struct Rows {
    text: String,
    width: Option<usize>,
}

impl Rows {
    fn new(width: Option<usize>) -> Self {
        Self { text: String::new(), width: width.filter(|width| *width >= NARROWEST) }
    }

    /// The answer, with a capital at its start and a full stop at its end.
    fn sentence(&mut self, words: &str) {
        let words = capital(&plain(words, usize::MAX));
        let _ = writeln!(self.text, "{}", wrapped(&format!("{words}."), 0, self.width));
    }

    fn row(&mut self, name: &str, words: &str) {
        self.rows(name, [words]);
    }

    fn rows<W: AsRef<str>>(&mut self, name: &str, lines: impl IntoIterator<Item = W>) {
        let mut name = name;
        for line in lines {
            let words = wrapped(&plain(line.as_ref(), usize::MAX), NAMES + 3, self.width);
            let _ = writeln!(self.text, "  {name:<NAMES$} {words}");
            name = "";
        }
    }
}

/// With a capital at its start.
pub(crate) fn capital(words: &str) -> String {
    let mut letters = words.chars();
    let first: String = letters.next().map(|letter| letter.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

/// Breaks a line at spaces; what follows is indented.
pub(crate) fn wrapped(words: &str, indent: usize, width: Option<usize>) -> String {
    let Some(room) = width.map(|width| width.saturating_sub(indent).max(20)) else { return words.to_owned() };
    let mut out = String::new();
    let mut used = 0;
    for word in words.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            let _ = write!(out, "\n{:indent$}", "");
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_row_is_wrapped_under_itself_and_nothing_of_it_is_lost() {
        let words = "growth ended at step 82.5 with the first pass over the data";
        let text = wrapped(words, 4, Some(30));
        assert!(text.lines().all(|line| line.chars().count() <= 30), "{text}");
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), words.split(' ').collect::<Vec<_>>());
        assert_eq!(wrapped(words, 4, None), words);
    }
}
