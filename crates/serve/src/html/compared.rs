//! What differs between two sides, as `lowtide compare` prints it: whose memory, which kind, which phase, and whether
//! it is more than noise.

use super::{capital, outcome_badge, verdict_badge};
use lowtide_model::{ByteDelta, Bytes};
use lowtide_verdict::{Comparison, Difference, Told};
use maud::{Markup, html};

/// Where a run stands in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// What it is held against: as a rule, before.
    A,
    /// What is held against it: after.
    B,
    /// Shown and not compared.
    None,
}

/// Which runs A and B are.
pub(super) fn sides(found: &Comparison) -> Markup {
    let side = |letter: &str, runs: &[Told]| {
        html! {
            @for run in runs { li { span.side { (letter) } span { (run.file) } (verdict_badge(run.verdict)) (outcome_badge(run.outcome)) } }
        }
    };
    html! {
        ul.sides { (side("A", &found.a)) (side("B", &found.b)) }
        @if let Some(words) = found.up_to() { p.byline { (words) } }
    }
}

/// One row a number that both sides have.
pub(super) fn differences(found: &Comparison) -> Markup {
    let noise = if found.spread_known {
        "Noise is told from how much the runs of a side differ among themselves."
    } else {
        "With one run a side, noise is the scatter inside each run; how much one run differs from the next is not known."
    };
    html! {
        section.card aria-labelledby="differs-h" {
            h2 #differs-h { "What differs, and whether it is more than noise" }
            div.scroll tabindex="0" role="group" aria-label="table, scrolls sideways" { table.differs {
                thead { tr { th { "what" } th { "when" } th.n { "A" } th.n { "B" } th.n { "B less A" } th.n { "95 % interval" } th { span.hide { "noise or not" } } } }
                tbody { @for one in found.rows() { (row(one)) } }
            } }
            p.note { (noise) " Small: sure, but too little to matter." }
        }
    }
}

fn row(one: &Difference) -> Markup {
    let change = |bytes: f64| ByteDelta(bytes as i64).to_string();
    let size = |bytes: f64| if bytes < 0.0 { change(bytes) } else { Bytes::from_f64(bytes).to_string() };
    html! {
        tr {
            td { (capital(&one.what())) }
            td { (one.when()) }
            td.n data-label="A" { (size(one.a.mean_bytes)) }
            td.n data-label="B" { (size(one.b.mean_bytes)) }
            td.n data-label="B less A" { (change(one.bytes)) }
            td.n data-label="95 % interval" { (change(one.low)) " .. " (change(one.high)) }
            td { span class=(if one.real { "badge calm" } else { "badge none" }) { (one.word()) } }
        }
    }
}

/// Puts a run on a side.
pub(super) fn choose(id: &str, name: &str, side: Side) -> Markup {
    let option = |letter: &str, of: Side| html! { option value=(format!("{}:{id}", letter.to_lowercase())) selected[side == of] { (letter) } };
    html! {
        select name="side" aria-label=(format!("side of {name}")) {
            (option("A", Side::A)) (option("B", Side::B)) (option("none", Side::None))
        }
    }
}
