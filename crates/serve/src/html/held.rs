//! What a scan found: what grew, the way to who holds it, and where memory is.

use super::{capital, duration};
use crate::page::{HolderRow, Page, Scanned, TypeRow};
use lowtide_model::{ByteDelta, Bytes};
use maud::{Markup, html};

pub(super) fn held(page: &Page) -> Markup {
    let Some(scan) = &page.scan else { return html! {} };
    html! {
        section.card.held aria-labelledby="held-h" {
            h2 #held-h { (heading(scan)) }
            p.note.first { (capital(&when(scan))) "." }
            div.held-parts {
                div { (types(scan)) @for holder in &scan.holders { (way(holder)) } }
                (parts(scan))
            }
        }
    }
}

fn heading(scan: &Scanned) -> &'static str {
    if scan.since.is_some() { "What grew, and who holds it" } else { "What it holds, and who holds it" }
}

/// When was looked, into whom, and what the difference was.
pub(crate) fn when(scan: &Scanned) -> String {
    let who = format!("{} {}", scan.role.word(), scan.pid);
    let at = duration(scan.seconds);
    match scan.since {
        Some(since) => format!(
            "{who} was scanned from outside at {} and at {at}; between the two it {}",
            duration(since.seconds),
            moved(since.grown_bytes)
        ),
        None => format!("{who} was scanned from outside at {at}, with {} in memory", size(scan.rss_bytes)),
    }
}

fn moved(bytes: f64) -> String {
    let verb = if bytes < 0.0 { "shrank" } else { "grew" };
    format!("{verb} by {}", size(bytes.abs()))
}

fn types(scan: &Scanned) -> Markup {
    if scan.types.is_empty() {
        return html! { p { "No Python type holds more than before: it is not Python objects that grew." } };
    }
    let grew = scan.since.is_some();
    html! {
        div.scroll tabindex="0" role="group" aria-label="table, scrolls sideways" {
            table {
                thead { tr { th { "type" } @if grew { th.n { "objects" } th.n { "grew by" } } th.n { "objects now" } th.n { "holds now" } } }
                tbody { @for row in &scan.types { (type_row(row)) } }
            }
        }
    }
}

fn type_row(row: &TypeRow) -> Markup {
    html! {
        tr {
            td { code { (row.name) } }
            @if let Some(more) = row.more_count { td.n { (format!("{more:+.0}")) } }
            @if let Some(more) = row.more_bytes { td.n { strong { (ByteDelta(more as i64)) } } }
            td.n { (format!("{:.0}", row.count)) } td.n { (size(row.bytes)) }
        }
    }
}

/// From the objects up to the name a person knows.
fn way(holder: &HolderRow) -> Markup {
    let Some((name, steps)) = holder.way.split_last() else {
        let why = if holder.doubt.is_empty() { "no common holder was found" } else { &holder.doubt };
        return html! { p.note { code { (holder.name) } ": " (why) "." } };
    };
    html! {
        div.way {
            h3 { "Who holds " (format!("{:.0}", holder.count)) " objects of " (holder.name) " with " (size(holder.bytes)) }
            ol {
                li.holder { code { (name) } }
                @for step in steps.iter().rev() { li { code { (step) } } }
            }
            p.note { (agreed(holder)) }
        }
    }
}

/// How sure that is.
pub(crate) fn agreed(holder: &HolderRow) -> String {
    let doubt = if holder.doubt.is_empty() { String::new() } else { format!("; {}", holder.doubt) };
    format!("{:.0} of {:.0} objects looked at agree{doubt}.", holder.agree, holder.samples)
}

fn parts(scan: &Scanned) -> Markup {
    if scan.parts.is_empty() {
        return html! {};
    }
    html! {
        div {
            h3 { "Where its memory is" }
            ul.bars {
                @for part in &scan.parts {
                    li {
                        span.bar-name { (part.name) }
                        span.bar-value { (size(part.bytes)) @if let Some(more) = part.more_bytes.filter(|more| more.abs() >= 1e6) { " (" (ByteDelta(more as i64)) ")" } }
                        svg.bar viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" {
                            rect.bar-all width="100" height="4" {}
                            rect.bar-part width=(format!("{:.1}", (100.0 * part.share).clamp(0.0, 100.0))) height="4" {}
                        }
                    }
                }
            }
            p.note { "Types, sizes and names are read, never a value. The scan took " (format!("{:.0} ms", scan.cpu_ms)) " of CPU time beside the job, which was not stopped." }
        }
    }
}

fn size(bytes: f64) -> String {
    Bytes::from_f64(bytes).to_string()
}
