//! Pages of the server about one run, or several side by side.

use super::list::{encoded, head};
use super::{brand, capital, document, outcome_badge, run_sections, verdict_badge};
use crate::page::{Page, safe_json};
use lowtide_model::{Bytes, RunState};
use lowtide_verdict::{Member, who_differs};
use maud::{Markup, PreEscaped, html};

/// One run, live while it goes on.
pub(crate) fn run_page(page: &Page, id: &str) -> Markup {
    let running = page.about.state == Some(RunState::Running);
    let id = encoded(id);
    let body = html! {
        header.top {
            a.brand href="/" { (brand()) }
            span.crumb { (page.name) }
            nav.right {
                a.button href=(format!("/api/v1/report/{id}")) { "Download report" }
                a.button href=(format!("/api/v1/recording/{id}")) { "Recording" }
            }
        }
        main #main data-events=[running.then(|| format!("/api/v1/events/{id}"))] { (run_sections(page)) }
        footer { p #live role="status" aria-live="polite" { @if running { "Following the run." } } }
        (super::data(page))
    };
    document(&format!("{}: {}", page.verdict.verdict.word(), page.name), &head(), &body)
}

/// Several runs: who differs, their curves in one picture, their answers in one table.
pub(crate) fn side_by_side(title: &str, runs: &[(String, Option<u32>, Page)]) -> Markup {
    let names: Vec<String> = runs
        .iter()
        .map(|(id, rank, page)| {
            rank.map_or_else(|| format!("{} ({id})", page.name), |rank| format!("rank {rank}"))
        })
        .collect();
    let members: Vec<Member<'_>> =
        runs.iter().zip(&names).map(|((_, _, page), name)| Member { name, verdict: &page.verdict }).collect();
    let differs = who_differs(&members).unwrap_or_default();
    let curves: Vec<_> = runs.iter().zip(&names).map(|((_, _, page), name)| serde_json::json!({ "name": name, "axis": page.figure.axis, "x": page.figure.line.x, "bytes": page.figure.line.high })).collect();
    let body = html! {
        header.top { a.brand href="/" { (brand()) } span.crumb { (title) } }
        main #main {
            section.answer { h1 { (capital(&differs)) "." } p.byline { (title) } }
            section.card { h2 { "Curves" } div.chart data-chart="curves" { (crate::figure::curves(&curves_of(runs))) } }
            section.card {
                h2 { "Answers" }
                div.scroll { table {
                    thead { tr { th { "run" } th { "what it is" } th { "fits" } th.n { "floor then" } th.n { "floor now" } th.n { "peak" } th { "sentence" } } }
                    tbody { @for ((id, _, page), name) in runs.iter().zip(&names) { (answer_row(id, name, page)) } }
                } }
            }
            (roles(runs, &names))
        }
        script type="application/json" id="lowtide-curves" { (PreEscaped(safe_json(&curves))) }
    };
    document(&format!("lowtide: {title}"), &head(), &body)
}

fn curves_of(runs: &[(String, Option<u32>, Page)]) -> Vec<(&[f64], &[f64])> {
    runs.iter().map(|(_, _, page)| (&page.figure.line.x[..], &page.figure.line.high[..])).collect()
}

fn answer_row(id: &str, name: &str, page: &Page) -> Markup {
    let size = |bytes: f64| Bytes::from_f64(bytes).to_string();
    html! {
        tr {
            td { a href=(format!("/run/{}", encoded(id))) { (name) } }
            td { (verdict_badge(page.verdict.verdict)) }
            td { (outcome_badge(page.verdict.outcome.is)) }
            td.n { (size(page.verdict.floor.start_bytes)) }
            td.n { (size(page.verdict.floor.end_bytes)) }
            td.n { (size(page.figure.line.peak().unwrap_or_default())) }
            td { (capital(&page.verdict.headline)) "." }
        }
    }
}

/// Peaks role by role, one column a run.
fn roles(runs: &[(String, Option<u32>, Page)], names: &[String]) -> Markup {
    let mut words: Vec<&str> = runs
        .iter()
        .flat_map(|run| run.2.summary.iter().flat_map(|s| &s.roles))
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
            div.scroll { table {
                thead { tr { th { "role" } @for name in names { th.n { (name) } } } }
                tbody { @for word in &words { tr { td { (word) } @for run in runs {
                    td.n { @if let Some((peak, growth)) = peak(&run.2, word) { (peak) span.small.line { (growth) } } }
                } } } }
            } }
        }
    }
}
