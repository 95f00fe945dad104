//! `lowtide compare`: what differs between two runs, or two sides of several runs, and whether it is more than noise.
//!
//! Not here: the comparison (see `verdict::compare`), how it looks (see `render::compare`).

use super::subject::{self, Answer, Subject};
use crate::cli::{CompareArgs, Format};
use crate::failure::Failure;
use crate::render;
use lowtide_verdict::Compared;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let nth = |at: usize| args.pair.get(at).cloned().into_iter().collect::<Vec<PathBuf>>();
    let (a, b) = if args.pair.is_empty() { (args.a.clone(), args.b.clone()) } else { (nth(0), nth(1)) };
    let (a, b) = (side(&a, args)?, side(&b, args)?);
    let found = lowtide_verdict::compare(&compared(&a), &compared(&b));
    if found.differences.is_empty() {
        return Err(Failure::new("the two sides have nothing in common that could be compared")
            .hint("compare two recordings, or two curves that measure the same thing"));
    }
    match args.format {
        Format::Text => render::say(&render::compare_text(&found, render::text_width()))?,
        Format::Json => render::say(&render::compare_json(&found))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A side is all runs of its files; one that can't be read spoils it.
fn side(files: &[PathBuf], args: &CompareArgs) -> Result<Vec<Answer>, Failure> {
    let mut gathered = subject::gather(files, &args.about)?;
    if !gathered.failures.is_empty() {
        return Err(gathered.failures.swap_remove(0).1);
    }
    files.iter().for_each(|file| say_several(file, &gathered.subjects));
    Ok(gathered.subjects.into_iter().map(subject::answer).collect())
}

/// Curves of one file may be runs, or parts of one: they are taken for runs, and that is said.
fn say_several(file: &Path, subjects: &[Subject]) {
    let start = format!("{}: ", file.display());
    let several = subjects.iter().filter(|subject| subject.label.starts_with(&start)).count();
    if several > 1 {
        let file = file.display();
        render::complain(&format!(
            "{file} holds {several} curves: each is taken for a run of its side; --y names one of them\n"
        ));
    }
}

fn compared(side: &[Answer]) -> Vec<Compared<'_>> {
    side.iter().map(one).collect()
}

fn one(answer: &Answer) -> Compared<'_> {
    Compared { name: &answer.subject.label, what: answer.subject.what.source(), run: &answer.run }
}
