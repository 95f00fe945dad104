//! Two badges, never one: what it is, and whether it fits.

use lowtide_verdict::{Fits, Group, Kind};
use maud::{Markup, html};

pub(crate) fn verdict_badge(kind: Kind) -> Markup {
    let tone = match kind.group() {
        Group::Leak => "bad",
        Group::Bounded => "calm",
        Group::Flat => "good",
        Group::TooEarly => "wait",
    };
    html! { span class=(format!("badge {tone}")) { (kind.word().replace('-', " ")) } }
}

pub(crate) fn outcome_badge(is: Fits) -> Markup {
    let (tone, words) = match is {
        Fits::Fits => ("good", "fits"),
        Fits::Tight => ("wait", "tight"),
        Fits::Exceeds => ("bad", "exceeds"),
        Fits::Unknown => ("none", "fit unknown"),
    };
    html! { span class=(format!("badge outline {tone}")) { (words) } }
}
