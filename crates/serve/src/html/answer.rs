//! The answer first: the sentence, whether it fits, what to do; then the numbers; then why.

use super::{capital, clipped, duration, moment, outcome_badge, state_word, verdict_badge};
use crate::page::Page;
use lowtide_model::{Axis, Bytes};
use lowtide_verdict::{Kind, Verdict, both};
use maud::{Markup, html};

/// Letters of a sentence that is set smaller.
const LONG: usize = 150;

pub(super) fn answer(page: &Page) -> Markup {
    let main = &page.verdict;
    html! {
        section class=(format!("answer tone-{}", tone(main))) aria-labelledby="answer-h" {
            div.badges {
                (verdict_badge(main.verdict))
                (outcome_badge(main.outcome.is))
                span.confidence title="Of the answers given with 0.9, nine in ten are right" { "confidence " (format!("{:.2}", main.confidence)) }
                @if let Some(state) = page.about.state { span class=(format!("state state-{}", state_word(state).replace(' ', "-"))) { (state_word(state)) } }
            }
            h1 #answer-h .long[main.headline.chars().count() > LONG] { (capital(&main.headline)) "." }
            p.outcome { (capital(outcome_part(&page.outcome_words))) "." }
            @if let Some(matters) = &page.matters { p.matters { (capital(matters)) "." } }
            @if let Some(advice) = main.advice.first() {
                p.do { strong { "Do this" } (capital(advice)) "." }
            }
            (byline(page))
        }
    }
}

/// The badge beside it tells the confidence.
fn outcome_part(words: &str) -> &str {
    words.split(". Confidence").next().unwrap_or(words)
}

const fn tone(main: &Verdict) -> &'static str {
    use lowtide_verdict::{Fits, Group};
    match (main.group, main.outcome.is) {
        (Group::Leak, _) | (_, Fits::Exceeds) => "bad",
        (Group::TooEarly, _) | (_, Fits::Tight) => "wait",
        (Group::Bounded, _) => "calm",
        (Group::Flat, _) => "good",
    }
}

fn byline(page: &Page) -> Markup {
    let about = &page.about;
    html! {
        p.byline {
            @if let Some(process) = &page.verdict.process {
                span { (process.who()) ": " code { (clipped(&process.argv.join(" "), 90)) } }
            }
            @if !about.host.is_empty() { span { "on " (about.host) } }
            @if let Some(started) = about.started_unix_ns { span { (moment(started)) } }
            @if let Some(seconds) = about.seconds { span { "watched for " (duration(seconds)) } }
            @if let Some(ending) = &about.ending { span { (ending) } }
        }
    }
}

/// The numbers a person looks for.
pub(super) fn figures(page: &Page) -> Markup {
    let main = &page.verdict;
    let floor = &main.floor;
    let peak = page.figure.line.peak();
    html! {
        dl.figures {
            (figure("Floor", &format!("{} \u{2192} {}", size(floor.start_bytes), size(floor.end_bytes)), "start to end"))
            @if main.verdict != Kind::Steady {
                (figure("Growth", &format!("{} {}", rate(floor.bytes_per_step), per(main.drawing.axis)), "while it grew"))
            }
            @if let Some(peak) = peak { (figure("Peak", &size(peak), "highest sample")) }
            @if let Some(needs) = main.outcome.needs_bytes.filter(|_| main.outcome.death.is_none()) { (figure("Needs", &size(needs), "at most, if nothing changes")) }
            @if let Some(limit) = main.outcome.limit_bytes { (figure("Limit", &size(limit), main.outcome.limit_from.as_deref().unwrap_or("")) ) }
            @if let Some(example) = main.bytes_per_example { (figure("Each example", &size(example), "kept after first use")) }
            @if let Some(settled) = settled(main) { (figure("Settled", &settled, "growth ended")) }
            @if let Some((when, span)) = forecast(main) { (figure("Limit reached", &when, &span)) }
        }
    }
}

fn figure(name: &str, value: &str, note: &str) -> Markup {
    html! { div { dt { (name) } dd { span.value { (value) } @if !note.is_empty() { span.small { (note) } } } } }
}

fn size(bytes: f64) -> String {
    Bytes::from_f64(bytes).to_string()
}

fn rate(bytes: f64) -> String {
    lowtide_model::ByteDelta(bytes as i64).to_string()
}

const fn per(axis: Axis) -> &'static str {
    match axis {
        Axis::Step => "per step",
        Axis::Seconds => "per second",
        Axis::Sample => "per sample",
        Axis::Epoch => "per epoch",
    }
}

fn settled(main: &Verdict) -> Option<String> {
    let at = main.settled_at?;
    at.step
        .map(|step| format!("step {step:.0}"))
        .or_else(|| at.seconds.map(|s| format!("after {}", duration(s))))
}

/// When the limit is reached, at this rate.
pub(crate) fn forecast(main: &Verdict) -> Option<(String, String)> {
    let forecast = main.forecast?;
    let when = match (forecast.at_step, forecast.in_seconds) {
        (Some(step), Some(seconds)) => format!("step {:.0}, in {}", step.floor(), duration(seconds)),
        (Some(step), None) => format!("step {:.0}", step.floor()),
        (None, Some(seconds)) => format!("in {}", duration(seconds)),
        (None, None) => return None,
    };
    let span = if forecast.at_step.is_some() {
        format!("between step {:.0} and {:.0}", forecast.low.floor(), forecast.high.ceil())
    } else {
        format!("between {} and {}", duration(forecast.low), duration(forecast.high))
    };
    Some((when, span))
}

/// Evidence, what it is not, what is still possible, what would prove it wrong.
pub(super) fn reasons(page: &Page) -> Markup {
    let main = &page.verdict;
    html! {
        div.columns {
            section.card aria-labelledby="evidence-h" {
                h2 #evidence-h { "Evidence" }
                ul.lines { @for line in main.evidence.iter().filter(|line| Some(*line) != page.matters.as_ref()) { li { (line) } } }
            }
            section.card aria-labelledby="not-h" {
                @if main.verdict == Kind::TooEarly {
                    h2 { "Still possible" }
                    ul.lines {
                        @for future in &main.explanations {
                            li { (verdict_badge(future.kind)) " " (format!("{:.0} %", 100.0 * future.weight)) ": " (future.predicts) }
                        }
                    }
                }
                @if !main.ruled_out.is_empty() {
                    h2 #not-h { "What it is not" }
                    ul.lines { @for out in &main.ruled_out { li { strong { (out.kind.word().replace('-', " ")) } ": " (out.because) } } }
                }
                @if main.advice.len() > 1 {
                    h2 { "More to do" }
                    ul.lines { @for line in &main.advice[1..] { li { (line) } } }
                }
                h2 { "To be sure" }
                p { (capital(&main.disprove)) "." }
            }
        }
    }
}

/// What else grows.
pub(super) fn findings(page: &Page) -> Markup {
    html! {
        @for finding in &page.findings {
            section.card.finding {
                div.badges { (verdict_badge(finding.verdict)) (outcome_badge(finding.outcome.is)) }
                h2 { "Also: " (finding.headline) "." }
                @if let Some(process) = &finding.process {
                    p.note { (process.who()) ": " code { (clipped(&process.argv.join(" "), 120)) } }
                }
                ul.lines { @for line in &finding.evidence { li { (line) } } }
                @if let Some(advice) = finding.advice.first() { p.do { strong { "Do this" } (capital(advice)) "." } }
                @if let Some(limit) = finding.outcome.limit_bytes { p.note { "Its limit is " (both(limit)) "." } }
            }
        }
    }
}
