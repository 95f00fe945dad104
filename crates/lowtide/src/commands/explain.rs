//! `lowtide explain`: what a memory curve is, and whether it fits.

use super::subject::{self, Answer, What};
use crate::cli::{ExplainArgs, Format};
use crate::failure::{COULD_NOT, Failure};
use crate::render::{self, Page};
use lowtide_model::Curve;
use lowtide_verdict::{Member, Together, curve_of, judge_together, rank_of, who_differs};
use std::process::ExitCode;

pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    if args.plot && args.format == Format::Json {
        return Err(
            Failure::new("--plot draws for people; it has no JSON").hint("leave out --plot or --format json")
        );
    }
    let gathered = subject::gather(&args.files, &args.about)?;
    let answers: Vec<Answer> = gathered.subjects.into_iter().map(subject::answer).collect();
    let together = together(args, &answers);
    match args.format {
        Format::Json => render::say(&json(args, &answers, together.as_ref())?)?,
        Format::Text => {
            let differs = if answers.len() > 1 { odd_one(&answers, gathered.folder) } else { None };
            render::say(&text(args, &answers, differs.as_deref(), together.as_ref()))?;
        }
    }
    for passed_over in &gathered.passed_over {
        render::complain(&format!("passed over: {passed_over}\n"));
    }
    for (_, failure) in &gathered.failures {
        render::complain(&failure.text());
    }
    Ok(if gathered.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(COULD_NOT) })
}

fn text(
    args: &ExplainArgs,
    answers: &[Answer],
    differs: Option<&str>,
    together: Option<&Together>,
) -> String {
    let width = render::text_width();
    let several = answers.len() > 1;
    let mut pages: Vec<String> = Vec::new();
    pages.extend(together.map(|together| render::together_text(together, width)));
    pages.extend(differs.map(|differs| format!("{differs}\n")));
    for answer in answers {
        let mut page = Page { answer, named: several, why: args.why, width }.text();
        if args.plot {
            let main = &answer.run.main;
            page.push_str(&render::plot(&main.drawing, main.outcome.limit_bytes, width));
        }
        pages.push(page);
    }
    pages.join("\n")
}

/// One object a line, each as docs/verdict.schema.json says.
fn json(args: &ExplainArgs, answers: &[Answer], together: Option<&Together>) -> Result<String, Failure> {
    let mut text = String::new();
    let findings = |answer: &Answer| if args.all { answer.run.findings.clone() } else { Vec::new() };
    for answer in answers {
        for verdict in std::iter::once(answer.run.main.clone()).chain(findings(answer)) {
            let mut object = serde_json::to_value(&verdict)?;
            if args.why {
                object["why"] = verdict.why.into();
            }
            text.push_str(&line(&object)?);
        }
    }
    if let Some(together) = together.filter(|_| args.together) {
        let object = serde_json::json!({
            "schema": "lowtide.together/1",
            "files": answers.iter().map(|answer| &answer.subject.label).collect::<Vec<_>>(),
            "proves_fill": together.proves_fill,
            "bytes_per_example": together.bytes_per_example,
            "headline": together.headline,
            "evidence": together.evidence,
        });
        text.push_str(&line(&object)?);
    }
    Ok(text)
}

fn line<T: serde::Serialize>(value: &T) -> Result<String, Failure> {
    Ok(format!("{}\n", serde_json::to_string(value)?))
}

/// Several runs judged as one program's, when that was asked for or when they look like it.
fn together(args: &ExplainArgs, answers: &[Answer]) -> Option<Together> {
    if answers.len() < 2 || !(args.together || alike(answers)) {
        return None;
    }
    Some(judge_together(&answers.iter().map(as_curve).collect::<Vec<_>>()))
}

/// Runs of one program with different data: the same axis and measure, and sizes that are known and differ.
fn alike(answers: &[Answer]) -> bool {
    let curves: Vec<_> = answers.iter().map(as_curve).collect();
    let same = curves.windows(2).all(|pair| pair[0].axis == pair[1].axis && pair[0].metric == pair[1].metric);
    let sizes: Option<Vec<f64>> = curves.iter().map(|curve| curve.context.examples).collect();
    let differ = sizes.is_some_and(|sizes| sizes.windows(2).any(|pair| (pair[0] - pair[1]).abs() > 0.5));
    let programs: Vec<_> = answers.iter().filter_map(program).collect();
    same && differ && programs.windows(2).all(|pair| pair[0] == pair[1])
}

/// Which run differs; none is asked for among runs that need not be alike.
fn odd_one(answers: &[Answer], folder: bool) -> Option<String> {
    let rank = |answer: &Answer| match &answer.subject.what {
        What::Recording(recording) => rank_of(recording),
        What::Curve(_) => None,
    };
    let ranked = answers.iter().all(|answer| rank(answer).is_some());
    let label = |answer: &Answer| answer.subject.label.clone();
    let name = |answer: &Answer| {
        rank(answer).map_or_else(|| label(answer), |rank| format!("rank {rank} ({})", label(answer)))
    };
    let names: Vec<String> = answers.iter().map(name).collect();
    let runs = names.iter().zip(answers).map(|(name, answer)| Member { name, verdict: &answer.run.main });
    if folder || ranked { who_differs(&runs.collect::<Vec<_>>()) } else { None }
}

fn as_curve(answer: &Answer) -> Curve {
    match &answer.subject.what {
        What::Curve(curve) => (**curve).clone(),
        What::Recording(recording) => curve_of(recording, &answer.run.main, &answer.subject.asked),
    }
}

fn program(answer: &Answer) -> Option<&str> {
    match &answer.subject.what {
        What::Recording(recording) => recording.meta.argv.first().map(String::as_str),
        What::Curve(_) => None,
    }
}
