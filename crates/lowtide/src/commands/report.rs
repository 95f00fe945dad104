//! `lowtide report`: one page to share.

use super::subject::{self, Answer, What};
use crate::cli::{ReportArgs, ReportTo};
use crate::failure::Failure;
use crate::render;
use lowtide_serve::Page;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let answer = only_answer(args)?;
    let page = Page::new(&name(&answer, &args.file), answer.subject.what.source(), &answer.run);
    let to = if args.svg { ReportTo::Svg } else { args.to };
    let text = match to {
        ReportTo::Html => lowtide_serve::report_html(&page),
        ReportTo::Svg => lowtide_serve::figure_svg(&page),
        ReportTo::Markdown => lowtide_serve::markdown(&page),
    };
    match out(args, to) {
        None => render::say(&text)?,
        Some(path) => {
            let cannot = |error| Failure::new(format!("cannot write {}", path.display())).because(error);
            std::fs::write(&path, text).map_err(cannot)?;
            let charts = if to == ReportTo::Html && !lowtide_serve::charts_are_built() {
                " (built without Node: its charts stand still)"
            } else {
                ""
            };
            render::say(&format!("{}{charts}\n", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn only_answer(args: &ReportArgs) -> Result<Answer, Failure> {
    if args.file.is_dir() {
        let what = format!("{} is a folder; a report is about one run", args.file.display());
        return Err(Failure::new(what).hint("lowtide serve --dir shows all runs of a folder"));
    }
    let mut gathered = subject::gather(std::slice::from_ref(&args.file), &args.about)?;
    if let Some((_, failure)) = gathered.failures.pop() {
        return Err(failure);
    }
    if gathered.subjects.len() > 1 {
        let what = format!(
            "{} holds {} curves; a report is about one",
            args.file.display(),
            gathered.subjects.len()
        );
        let names = gathered.subjects.iter().take(5).map(|one| one.label.clone());
        let failure = names.fold(Failure::new(what), Failure::because);
        return Err(failure.hint("choose one with --y"));
    }
    let one = gathered.subjects.pop().map(subject::answer);
    one.ok_or_else(|| Failure::new(format!("nothing to report in {}", args.file.display())))
}

/// What people call the run: the folder it lies in is nobody's business.
fn name(answer: &Answer, file: &Path) -> String {
    let named = match &answer.subject.what {
        What::Recording(recording) => recording.meta.name.as_str(),
        What::Curve(curve) => curve.name.as_str(),
    };
    let file = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if named.is_empty() { file } else { named.to_owned() }
}

fn out(args: &ReportArgs, to: ReportTo) -> Option<PathBuf> {
    match (&args.out, to) {
        (Some(path), _) if path == Path::new("-") => None,
        (Some(path), _) => Some(path.clone()),
        (None, ReportTo::Html) => {
            let stem = args.file.file_stem().filter(|_| args.file != Path::new("-"));
            Some(PathBuf::from(stem.unwrap_or("report".as_ref())).with_extension("html"))
        }
        (None, ReportTo::Svg | ReportTo::Markdown) => None,
    }
}
