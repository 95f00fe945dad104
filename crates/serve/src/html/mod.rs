//! Pages as HTML. Every foreign word goes through maud's escaping; nothing here is put together from strings.
//!
//! The same sections make the report and the live page. Without script they are whole: the script adds zoom, hover and
//! news. Not here: pictures (see `figure`), data (see `page`).

mod answer;
mod badge;
pub(crate) mod compared;
mod facts;
pub(crate) mod held;
pub(crate) mod list;
mod served;
mod words;

pub(crate) use badge::{outcome_badge, verdict_badge};
pub(crate) use list::list;
pub(crate) use served::{Together, run_page, side_by_side};
pub(crate) use words::{capital, clipped, duration, moment, state_word};

use crate::page::Page;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A whole document around `body`.
pub(crate) fn document(title: &str, head: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) }
                link rel="icon" href=(ICON);
                (head)
            }
            body { (body) }
        }
    }
}

/// A wave in a square: the icon asks no server for anything.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='7' fill='%230b6e8a'/%3E%3Cpath d='M4 20c4-6 8-6 12 0s8 6 12 0' fill='none' stroke='white' stroke-width='3' stroke-linecap='round'/%3E%3C/svg%3E";

/// The name of the product, as it stands at the top of every page.
pub(crate) fn brand() -> Markup {
    html! {
        span.brand {
            svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true" {
                rect.brand-box width="32" height="32" rx="7" {}
                path.brand-wave d="M4 20c4-6 8-6 12 0s8 6 12 0" {}
            }
            "lowtide"
        }
    }
}

/// Everything of one run, from the answer down to what we cost.
pub(crate) fn run_sections(page: &Page) -> Markup {
    let [answer, legend, held, reasons, facts] = parts(page);
    html! { (answer) (chart(page)) (legend) (held) (reasons) (layers(page)) (facts) }
}

/// The parts of a page that news replace; charts are drawn anew from the data.
pub(crate) fn news(page: &Page) -> Markup {
    html! { @for part in parts(page) { (part) } }
}

fn parts(page: &Page) -> [Markup; 5] {
    let part = |name: &str, inside: Markup| html! { div.part data-part=(name) { (inside) } };
    [
        part("answer", html! { (answer::answer(page)) (answer::figures(page)) }),
        part("legend", legend(page)),
        part("held", held::held(page)),
        part("reasons", html! { (answer::reasons(page)) (answer::findings(page)) }),
        part(
            "facts",
            html! { (facts::roles(page)) (facts::processes(page)) (facts::events(page)) (facts::about(page)) },
        ),
    ]
}

/// The main figure: still at first, alive when the script has come.
fn chart(page: &Page) -> Markup {
    html! {
        section.card aria-labelledby="curve-h" {
            div.card-head {
                h2 #curve-h { (capital(&page.figure.what)) }
                div.tools data-tools="main" {}
            }
            div.chart data-chart="main" { (crate::figure::inline(page)) }
        }
    }
}

fn legend(page: &Page) -> Markup {
    let figure = &page.figure;
    let limit = figure.limit.as_ref();
    html! {
        ul.legend {
            li { span.key.key-curve {} "memory" }
            @if !figure.floor.is_empty() { li { span.key.key-floor {} "floor: what stays between the waves" } }
            @if !figure.marks.epochs.is_empty() { li { span.key.key-epoch {} "epoch" } }
            @if !figure.marks.evals.is_empty() { li { span.key.key-eval {} "evaluation" } }
            @if !figure.marks.saves.is_empty() { li { span.key.key-save {} "save" } }
            @for future in &figure.futures {
                li { span class=(format!("key key-future kind-{}", future.kind.word())) {} (capital(&future.kind.word().replace('-', " "))) ": " (future.predicts) }
            }
            @if let Some(limit) = limit {
                li { span.key.key-limit {} "limit " (lowtide_verdict::both(limit.bytes))
                    @if let Some(from) = &limit.from { ", from " (from) } }
            }
        }
    }
}

/// Memory by role and by kind: drawn by the script, told in numbers by the tables below.
fn layers(page: &Page) -> Markup {
    let Some(stacks) = &page.stacks else { return html! {} };
    html! {
        section.card aria-labelledby="layers-h" {
            div.card-head {
                h2 #layers-h { "Who holds it, and what kind it is" }
                div.tools data-tools="stack" {}
            }
            div.pair {
                div { h3 { "By role" } div.chart.small data-chart="by_role" { (crate::figure::layers(&stacks.seconds, &stacks.by_role)) } }
                div { h3 { "By kind of memory" } div.chart.small data-chart="by_kind" { (crate::figure::layers(&stacks.seconds, &stacks.by_kind)) } }
            }
            p.note { "Resident memory of every process, added up: pages that forked workers share count in each of them." }
        }
    }
}

/// The data of a page for its script.
pub(crate) fn data(page: &Page) -> Markup {
    html! { script type="application/json" id="lowtide-page" { (PreEscaped(page.script_json())) } }
}
