//! `lowtide compare`: what differs between two runs, or two sides of several runs, and whether it is more than noise.
//!
//! Files of several curves (ranks, columns) are compared curve by curve where both sides have the same names.
//! Not here: the comparison (see `verdict::compare`), how it looks (see `render::compare`).

use super::subject::{self, Answer};
use crate::cli::{CompareArgs, Format};
use crate::failure::Failure;
use crate::render;
use lowtide_verdict::{Compared, Comparison};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let nth = |at: usize| args.pair.get(at).cloned().into_iter().collect::<Vec<PathBuf>>();
    let (a, b) = if args.pair.is_empty() { (args.a.clone(), args.b.clone()) } else { (nth(0), nth(1)) };
    let (a, b) = (Side::read(a, args)?, Side::read(b, args)?);
    let found: Vec<(Option<&str>, Comparison)> = if a.has_the_names_of(&b) {
        a.names().into_iter().flatten().map(|name| (Some(name), held(&a, &b, Some(name)))).collect()
    } else {
        [&a, &b].into_iter().for_each(Side::say_several);
        vec![(None, held(&a, &b, None))]
    };
    if found.iter().all(|(_, found)| found.differences.is_empty()) {
        return Err(Failure::new("the two sides have nothing in common that could be compared")
            .hint("compare two recordings, or two curves that measure the same thing"));
    }
    let width = render::text_width();
    let text = |(name, found): &(Option<&str>, Comparison)| render::compare_text(*name, found, width);
    let json = |(name, found): &(Option<&str>, Comparison)| render::compare_json(*name, found);
    match args.format {
        Format::Text => render::say(&found.iter().map(text).collect::<Vec<_>>().join("\n"))?,
        Format::Json => render::say(&found.iter().map(json).collect::<String>())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// All runs of some files.
struct Side {
    files: Vec<PathBuf>,
    answers: Vec<Answer>,
}

impl Side {
    /// A file that can't be read spoils its side.
    fn read(files: Vec<PathBuf>, args: &CompareArgs) -> Result<Self, Failure> {
        let mut gathered = subject::gather(&files, &args.about)?;
        if !gathered.failures.is_empty() {
            return Err(gathered.failures.swap_remove(0).1);
        }
        Ok(Self { files, answers: gathered.subjects.into_iter().map(subject::answer).collect() })
    }

    /// The names of its curves in their order, if all come from files that hold several.
    fn names(&self) -> Option<Vec<&str>> {
        let mut seen = BTreeSet::new();
        let names: Option<Vec<&str>> =
            self.answers.iter().map(|answer| answer.subject.curve.as_deref()).collect();
        Some(names?.into_iter().filter(|name| seen.insert(*name)).collect())
    }

    fn has_the_names_of(&self, other: &Self) -> bool {
        let (Some(mut own), Some(mut others)) = (self.names(), other.names()) else { return false };
        own.sort_unstable();
        others.sort_unstable();
        own == others
    }

    /// Curves of one file may be runs, or parts of one. Where the other side has not the same names they are taken for
    /// runs, and that is said.
    fn say_several(&self) {
        for file in &self.files {
            let file = file.display();
            let start = format!("{file}: ");
            let several =
                self.answers.iter().filter(|answer| answer.subject.label.starts_with(&start)).count();
            if several > 1 {
                render::complain(&format!(
                    "{file} holds {several} curves, and the other side has not the same: each is taken for a run of its \
                     side; --y names one of them\n"
                ));
            }
        }
    }
}

/// Holds the sides against each other: all of them, or the curves of one name.
fn held(a: &Side, b: &Side, name: Option<&str>) -> Comparison {
    lowtide_verdict::compare(&compared(&a.answers, name), &compared(&b.answers, name))
}

fn compared<'a>(side: &'a [Answer], name: Option<&str>) -> Vec<Compared<'a>> {
    let wanted = |answer: &&Answer| name.is_none() || answer.subject.curve.as_deref() == name;
    side.iter().filter(wanted).map(one).collect()
}

fn one(answer: &Answer) -> Compared<'_> {
    Compared { name: &answer.subject.label, what: answer.subject.what.source(), run: &answer.run }
}
