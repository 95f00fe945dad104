//! The list of all runs: what each is and whether it fits, at a glance. A form, so that it works without script.

use super::{brand, clipped, document, duration, moment, outcome_badge, state_word, verdict_badge};
use crate::server::answers::Wanted;
use crate::server::pages::Listed;
use crate::server::summary::Summary;
use lowtide_model::{Bytes, RunState};
use lowtide_verdict::Kind;
use maud::{Markup, html};

pub(crate) fn list(dir: &str, wanted: &Wanted, listed: &Listed) -> Markup {
    let body = html! {
        header.top { a.brand href="/" { (brand()) } span.crumb title=(dir) { (dir) } }
        main #main data-live="list" {
            (form(wanted))
            @if listed.all == 0 {
                section.card.empty { h1 { "No recordings yet" } p { "Make one: " code { "lowtide run -- python train.py" } " and it appears here." } }
            } @else {
                section.card aria-labelledby="runs-h" {
                    div.card-head { h1.plain #runs-h { (listed.total) " of " (listed.all) " runs" } (pager(wanted, listed)) }
                    form method="get" action="/compare" {
                        div.scroll {
                            table.runs {
                                thead { tr { th { span.hide { "compare" } } th { "run" } th { "what it is" } th { "fits" } th { "curve" } th.n { "peak" } th.n { "length" } th { "started" } } }
                                tbody { @for run in &listed.shown { (row(run, listed)) } }
                            }
                        }
                        p.note { "Choose two or more and " button type="submit" { "compare them" } }
                    }
                }
            }
        }
        footer { "lowtide " (env!("CARGO_PKG_VERSION")) ". " a href="/metrics" { "metrics" } " \u{b7} " a href="/api/v1/openapi.json" { "API" } (super::served::still()) }
    };
    document("lowtide: runs", &head(), &body)
}

pub(super) fn head() -> Markup {
    html! {
        link rel="stylesheet" href="/app.css";
        @if crate::charts_are_built() { script src="/app.js" defer {} }
    }
}

fn form(wanted: &Wanted) -> Markup {
    let kinds: Vec<(&str, String)> =
        Kind::ALL.iter().map(|kind| (kind.word(), kind.word().replace('-', " "))).collect();
    let words =
        |all: &[&'static str]| all.iter().map(|word| (*word, word.replace('_', " "))).collect::<Vec<_>>();
    html! {
        form.filters method="get" action="/" role="search" data-filters {
            input type="search" name="q" value=(wanted.q) placeholder="Search name, command, host, sentence" aria-label="Search";
            (choice("verdict", "any verdict", &wanted.verdict, &kinds))
            (choice("outcome", "fits or not", &wanted.outcome, &words(&["fits", "tight", "exceeds", "unknown"])))
            (choice("state", "any state", &wanted.state, &words(&["running", "finished", "cut_off"])))
            (choice("sort", "newest first", &wanted.sort, &words(&["oldest", "name", "peak", "length"])))
            button type="submit" { "Show" }
        }
    }
}

fn choice(name: &str, any: &str, chosen: &str, all: &[(&str, String)]) -> Markup {
    html! {
        select name=(name) aria-label=(name) {
            option value="" { (any) }
            @for (value, words) in all { option value=(value) selected[*value == chosen] { (words) } }
        }
    }
}

fn row(run: &Summary, listed: &Listed) -> Markup {
    let address = format!("/run/{}", encoded(&run.id));
    html! {
        tr {
            td { input type="checkbox" name="pick" value=(run.id) aria-label=(format!("choose {}", run.name)); }
            td.run-name {
                a href=(address) { (clipped(&run.name, 80)) }
                @if let Some(rank) = run.rank { span.small { " rank " (rank) } }
                @if run.state == Some(RunState::Running) { span.state.state-running { "running" } }
                @if run.state == Some(RunState::CutOff) { span.state.state-cut-off { (state_word(RunState::CutOff)) } }
                span.small.line { (clipped(&run.headline, 150)) }
                @if let Some(error) = &run.error { span.small.line.bad-text { (error) } }
                @if let Some(members) = listed.groups.get(&run.run_id) {
                    a.small href=(format!("/group/{}", encoded(&run.run_id))) { "all " (members) " of this run" }
                }
            }
            td { @if let Some(kind) = run.verdict { (verdict_badge(kind)) } }
            td { @if let Some(is) = run.outcome { (outcome_badge(is)) } }
            td { @if !run.spark.is_empty() { (crate::figure::spark(&run.spark, run.limit_bytes)) } }
            td.n { @if let Some(peak) = run.peak_bytes { (Bytes::from_f64(peak)) } @if let Some(limit) = run.limit_bytes { span.small.line { "of " (Bytes::from_f64(limit)) } } }
            td.n { (duration(run.seconds)) }
            td { @if run.started_unix_ns > 0 { (moment(run.started_unix_ns)) } span.small.line { (run.host) } }
        }
    }
}

fn pager(wanted: &Wanted, listed: &Listed) -> Markup {
    if listed.pages < 2 {
        return html! {};
    }
    let address = |page: usize| {
        let pairs = [
            ("q", &wanted.q),
            ("verdict", &wanted.verdict),
            ("outcome", &wanted.outcome),
            ("state", &wanted.state),
            ("sort", &wanted.sort),
        ];
        let kept: String = pairs
            .iter()
            .filter(|pair| !pair.1.is_empty())
            .map(|(name, value)| format!("{name}={}&", encoded(value)))
            .collect();
        format!("/?{kept}page={page}")
    };
    html! {
        nav.pager aria-label="pages" {
            @if listed.page > 1 { a.button href=(address(listed.page - 1)) { "before" } }
            span { (listed.page) " of " (listed.pages) }
            @if listed.page < listed.pages { a.button href=(address(listed.page + 1)) { "next" } }
        }
    }
}

/// Any text as a part of an address.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
