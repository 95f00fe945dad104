//! Pages of the server about one run, or several side by side.

use super::compared::{self, Side};
use super::list::{encoded, head};
use super::{brand, capital, document, outcome_badge, run_sections, verdict_badge};
use crate::page::{Page, safe_json};
use lowtide_model::{ByteDelta, Bytes, RunState};
use lowtide_verdict::{Comparison, Fits, Group, Member, who_differs};
use maud::{Markup, PreEscaped, html};
use std::sync::Arc;

/// A sentence above so many letters is set smaller.
const LONG: usize = 160;

/// One run, live while it goes on.
pub(crate) fn run_page(page: &Page, id: &str) -> Markup {
    let running = page.about.state == Some(RunState::Running);
    let id = encoded(id);
    let body = html! {
        header.top {
            a.brand href="/" { (brand()) }
            span.crumb { (page.name) }
            span #live .live role="status" aria-live="polite" { @if running { "Following the run." } }
            nav.right {
                a.button href=(format!("/api/v1/report/{id}")) { "Download report" }
                a.button href=(format!("/api/v1/recording/{id}")) { "Recording" }
            }
        }
        main #main data-events=[running.then(|| format!("/api/v1/events/{id}"))] { (run_sections(page)) }
        footer { (still()) }
        (super::data(page))
    };
    document(&format!("{}: {}", page.verdict.verdict.word(), page.name), &head(), &body)
}

/// What a build without Node lacks.
pub(super) fn still() -> Markup {
    html! { @if !crate::charts_are_built() { p { "Built without Node: the charts stand still, and a page is new when it is loaded again." } } }
}

/// Several runs that stand together.
pub(crate) struct Together<'a> {
    pub(crate) title: &'a str,
    pub(crate) runs: &'a [(String, Arc<Page>)],
    /// What differs between the sides, where runs were put on two.
    pub(crate) compared: Option<&'a Comparison>,
    /// The side of each run; none where they have no sides: ranks of one job.
    pub(crate) sides: Option<&'a [Side]>,
}

/// Several runs: who differs, their curves in one picture, their answers in one table.
pub(crate) fn side_by_side(all: &Together<'_>) -> Markup {
    let (title, runs) = (all.title, all.runs);
    let names: Vec<String> = runs.iter().map(|(id, page)| name_of(id, page)).collect();
    let members: Vec<Member<'_>> =
        runs.iter().zip(&names).map(|((_, page), name)| Member { name, verdict: &page.verdict }).collect();
    let differs =
        all.compared.map_or_else(|| who_differs(&members).unwrap_or_default(), Comparison::headline);
    let curves: Vec<_> = runs.iter().zip(&names).map(|((_, page), name)| serde_json::json!({ "name": name, "axis": page.figure.axis, "x": page.figure.line.x, "bytes": page.figure.line.high })).collect();
    let long = if differs.len() > LONG { "long" } else { "" };
    let body = html! {
        header.top { a.brand href="/" { (brand()) } span.crumb { (title) } }
        main #main {
            section class=(format!("answer tone-{}", tone(runs))) {
                h1 class=(long) { (capital(&differs)) "." }
                @if let Some(found) = all.compared { (compared::sides(found)) } @else { p.byline { (title) } }
            }
            section.card { h2 { "Curves" } div.chart data-chart="curves" { (crate::figure::curves(&curves_of(runs))) } }
            @if let Some(found) = all.compared { (compared::differences(found)) }
            (answers(all, &names))
            (roles(runs, &names))
            (kinds(runs, &names))
        }
        footer { (still()) }
        script type="application/json" id="lowtide-curves" { (PreEscaped(safe_json(&curves))) }
    };
    document(&format!("lowtide: {title}"), &head(), &body)
}

/// What a run is called beside others.
fn name_of(id: &str, page: &Page) -> String {
    let alone = || if page.name == id { id.to_owned() } else { format!("{} ({id})", page.name) };
    page.about.rank.map_or_else(alone, |rank| format!("rank {rank}"))
}

/// What each run is by itself; where runs have sides, a form to put them on others.
fn answers(all: &Together<'_>, names: &[String]) -> Markup {
    let side = |n: usize| all.sides.and_then(|sides| sides.get(n)).copied();
    html! {
        section.card {
            h2 { "Answers" }
            form method="get" action="/compare" {
                div.scroll tabindex="0" role="group" aria-label="table, scrolls sideways" { table.answers {
                    thead { tr { @if all.sides.is_some() { th { "side" } } th { "run" } th { "what it is" } th { "fits" } th.n { "floor then" } th.n { "floor now" } th.n { "peak" } th { "sentence" } } }
                    tbody { @for (n, (id, page)) in all.runs.iter().enumerate() { (answer_row(id, &names[n], page, side(n))) } }
                } }
                @if all.sides.is_some() { p.note { "Several runs a side tell a fix from luck: choose more in the list, put each on a side and " button type="submit" { "compare the sides" } } }
            }
        }
    }
}

fn curves_of(runs: &[(String, Arc<Page>)]) -> Vec<(&[f64], &[f64])> {
    runs.iter().map(|(_, page)| (&page.figure.line.x[..], &page.figure.line.high[..])).collect()
}

fn answer_row(id: &str, name: &str, page: &Page, side: Option<Side>) -> Markup {
    let size = |bytes: f64| Bytes::from_f64(bytes).to_string();
    html! {
        tr {
            @if let Some(side) = side { td { (compared::choose(id, name, side)) } }
            td { a href=(format!("/run/{}", encoded(id))) { (name) } }
            td { (verdict_badge(page.verdict.verdict)) }
            td { (outcome_badge(page.verdict.outcome.is)) }
            td.n data-label="floor then" { (size(page.verdict.floor.start_bytes)) }
            td.n data-label="floor now" { (size(page.verdict.floor.end_bytes)) }
            td.n data-label="peak" { (size(page.figure.line.peak().unwrap_or_default())) }
            td.sentence { (capital(&page.verdict.headline)) "." }
        }
    }
}

/// The worst of them.
fn tone(runs: &[(String, Arc<Page>)]) -> &'static str {
    let any = |bad: fn(&Page) -> bool| runs.iter().any(|(_, page)| bad(page));
    if any(|page| page.verdict.group == Group::Leak || page.verdict.outcome.is == Fits::Exceeds) {
        "bad"
    } else if any(|page| page.verdict.group == Group::TooEarly || page.verdict.outcome.is == Fits::Tight) {
        "wait"
    } else {
        "good"
    }
}

/// Highest level of each kind of memory, one column a run.
fn kinds(runs: &[(String, Arc<Page>)], names: &[String]) -> Markup {
    let of = |page: &Page, kind: &str| {
        let layers = page.stacks.iter().flat_map(|stacks| &stacks.by_kind);
        let layer = layers.into_iter().find(|layer| layer.name == kind)?;
        let first = layer.bytes.first().copied().unwrap_or_default();
        Some((layer.bytes.iter().copied().fold(0.0, f64::max), layer.bytes.last().copied()? - first))
    };
    let mut words: Vec<&str> = Vec::new();
    for layer in runs.iter().flat_map(|(_, page)| page.stacks.iter().flat_map(|stacks| &stacks.by_kind)) {
        if !words.contains(&layer.name) {
            words.push(layer.name);
        }
    }
    html! {
        section.card {
            h2 { "Kind by kind: peak, and end against start" }
            div.scroll tabindex="0" role="group" aria-label="table, scrolls sideways" { table {
                thead { tr { th { "kind of memory" } @for name in names { th.n { (name) } } } }
                tbody { @for word in words { tr { td { (word) } @for run in runs {
                    td.n { @if let Some((peak, change)) = of(&run.1, word) { (Bytes::from_f64(peak)) span.small.line { (ByteDelta(change as i64)) } } }
                } } } }
            } }
        }
    }
}

/// Peaks role by role, one column a run.
fn roles(runs: &[(String, Arc<Page>)], names: &[String]) -> Markup {
    let mut words: Vec<&str> = runs
        .iter()
        .flat_map(|run| run.1.summary.iter().flat_map(|s| &s.roles))
        .map(|role| role.role.word())
        .collect();
    words.sort_unstable();
    words.dedup();
    let peak = |page: &Page, word: &str| {
        page.summary
            .as_ref()
            .and_then(|s| s.roles.iter().find(|role| role.role.word() == word))
            .map(|role| (role.course.peak_bytes, role.course.growth_bytes))
    };
    html! {
        section.card {
            h2 { "Role by role: peak and growth" }
            div.scroll tabindex="0" role="group" aria-label="table, scrolls sideways" { table {
                thead { tr { th { "role" } @for name in names { th.n { (name) } } } }
                tbody { @for word in &words { tr { td { (word) } @for run in runs {
                    td.n { @if let Some((peak, growth)) = peak(&run.1, word) { (peak) span.small.line { (growth) } } }
                } } } }
            } }
        }
    }
}
