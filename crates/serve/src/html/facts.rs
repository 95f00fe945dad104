//! Tables: roles, processes, what happened, and what lowtide itself cost.

use super::{clipped, duration, moment};
use crate::page::{Page, ProcessRow};
use lowtide_model::{ByteDelta, Bytes, EventKind};
use lowtide_verdict::Course;
use maud::{Markup, html};

pub(super) fn roles(page: &Page) -> Markup {
    let Some(summary) = &page.summary else { return html! {} };
    html! {
        section.card aria-labelledby="roles-h" {
            h2 #roles-h { "Role by role" }
            div.scroll tabindex="0" role="group" aria-label="table, scrolls sideways" {
                table {
                    thead { tr { th { "role" } th.n { "processes" } th.n { "start" } th.n { "average" } th.n { "peak" } th.n { "floor then" } th.n { "floor now" } th.n { "growth" } } }
                    tbody {
                        @for role in &summary.roles { (course(role.role.word(), role.processes, &role.course)) }
                        (course("whole tree, shared pages once", summary.processes, &summary.total))
                    }
                }
            }
        }
    }
}

fn course(name: &str, processes: u64, course: &Course) -> Markup {
    html! {
        tr {
            td { (name) } td.n { (processes) }
            td.n { (course.start_bytes) } td.n { (course.average_bytes) } td.n { (course.peak_bytes) }
            td.n { (course.floor_start_bytes) } td.n { (course.floor_end_bytes) } td.n { (course.growth_bytes) }
        }
    }
}

/// Processes that are shown at once; the smaller ones are there for who asks.
const SHOWN: usize = 8;

pub(super) fn processes(page: &Page) -> Markup {
    if page.processes.is_empty() {
        return html! {};
    }
    let (first, more) = page.processes.split_at(page.processes.len().min(SHOWN));
    html! {
        section.card aria-labelledby="processes-h" {
            h2 #processes-h { "Processes" }
            (process_table(first))
            @if !more.is_empty() { details { summary { (more.len()) " more processes" } (process_table(more)) } }
            @if page.processes_left_out > 0 {
                p.note { (page.processes_left_out) " more that were smaller, or lived too short to be measured." }
            }
        }
    }
}

fn process_table(rows: &[ProcessRow]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="table, scrolls sideways" {
            table.processes {
                thead { tr { th.n { "pid" } th { "role" } th.n { "start" } th.n { "end" } th.n { "change" } th.n { "peak" } th.n { "lived" } th { "command" } } }
                tbody { @for row in rows { (process(row)) } }
            }
        }
    }
}

fn process(row: &ProcessRow) -> Markup {
    let change = row.end_bytes.since(row.start_bytes);
    let lived = row.died_seconds.map(|died| duration(died - row.born_seconds));
    html! {
        tr {
            td.n { (row.pid) }
            td title=(row.reason) { (row.role.word()) }
            td.n { (row.start_bytes) } td.n { (row.end_bytes) }
            td.n { (change_words(change)) }
            td.n { (row.peak_bytes) }
            td.n { (lived.unwrap_or_else(|| "to the end".to_owned())) @if let Some(exit) = &row.exit { br; span.small { (exit) } } }
            td.command title=(row.command) { code { (clipped(&row.command, 110)) } }
        }
    }
}

fn change_words(change: ByteDelta) -> String {
    if change.0 == 0 { "0 B".to_owned() } else { change.to_string() }
}

pub(super) fn events(page: &Page) -> Markup {
    if page.events.is_empty() {
        return html! {};
    }
    html! {
        section.card aria-labelledby="events-h" {
            h2 #events-h { "What happened" }
            ol.events {
                @for event in &page.events {
                    li class=(if event.kind == EventKind::Oom { "oom" } else { "" }) { span.at { (duration(event.seconds)) } (event.text) }
                }
            }
        }
    }
}

/// Where the numbers come from and what they cost.
pub(super) fn about(page: &Page) -> Markup {
    let about = &page.about;
    html! {
        section.card.about aria-labelledby="about-h" {
            h2 #about-h { "About this run" }
            dl {
                @if !about.command.is_empty() { dt { "Command" } dd { code { (clipped(&about.command, 600)) } } }
                @if let Some(started) = about.started_unix_ns { dt { "Started" } dd { (moment(started)) @if !about.host.is_empty() { " on " (about.host) } } }
                @if !about.run_id.is_empty() { dt { "Run" } dd { code { (about.run_id) } } }
                @if !about.kernel.is_empty() { dt { "System" } dd { "Linux " (about.kernel) ", " (about.cpus) " CPUs" } }
                @for note in &about.notes { dt { "Read as" } dd { (note) } }
                @if let Some(cost) = &page.cost {
                    dt { "lowtide's own cost" }
                    dd {
                        (format!("{:.2} % of one core", cost.cpu_percent)) " (" (format!("{:.1} s", cost.cpu_seconds)) " of CPU time), "
                        (Bytes(cost.peak_bytes)) " of memory, "
                        (format!("{:.0} ms", cost.stall_ms)) " in which the job's memory map was held"
                        @if cost.dropped_rows > 0 { ", " (cost.dropped_rows) " rows lost" }
                    }
                }
                dt { "Made by" } dd { "lowtide " (env!("CARGO_PKG_VERSION")) @if !about.lowtide.is_empty() && about.lowtide != env!("CARGO_PKG_VERSION") { ", recorded by " (about.lowtide) } }
            }
        }
    }
}
