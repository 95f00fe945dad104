//! One file to share: everything inside, nothing asked of any network, readable without script.

use crate::assets::{CHART_STYLE, SCRIPT, SCRIPT_SHA256, STYLE, charts_are_built};
use crate::html;
use crate::page::Page;
use maud::{PreEscaped, html};

/// The report of a run.
pub fn report_html(page: &Page) -> String {
    // Only our own script may run, told by its hash: foreign text that escaped its place would still do nothing.
    let script =
        if charts_are_built() { format!("'sha256-{}'", SCRIPT_SHA256.trim()) } else { "'none'".to_owned() };
    let policy = format!(
        "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    );
    let head = html! {
        meta http-equiv="Content-Security-Policy" content=(policy);
        meta name="generator" content=(concat!("lowtide ", env!("CARGO_PKG_VERSION")));
        style { (PreEscaped(CHART_STYLE)) (PreEscaped(STYLE)) }
    };
    let body = html! {
        header.top { (html::brand()) span.crumb { (page.name) } }
        main #main { (html::run_sections(page)) }
        footer {
            "A report of lowtide. This file holds all it shows; it asks no network for anything."
            @if !charts_are_built() { " Built without Node: the charts stand still." }
        }
        @if charts_are_built() { (html::data(page)) script { (PreEscaped(SCRIPT)) } }
    };
    html::document(&format!("{}: {}", page.verdict.verdict.word(), page.name), &head, &body).into_string()
}
