//! The main figure as a still picture: SVG drawn without a browser, for reports without script, for print and `--svg`.
//!
//! Colours come from the classes of style.css; a picture that stands alone brings its own. Not here: zoom and hover
//! (see web/src).

mod axis;
mod draw;

pub(crate) use axis::View;

use crate::page::Page;

/// The picture alone, as a file.
pub fn figure_svg(page: &Page) -> String {
    draw::svg(page, draw::Frame::Alone).into_string()
}

/// The picture inside a page.
pub(crate) fn inline(page: &Page) -> maud::Markup {
    draw::svg(page, draw::Frame::Inline)
}

/// Layers over time in a page.
pub(crate) fn layers(seconds: &[f64], layers: &[crate::page::Layer]) -> maud::Markup {
    draw::layers(seconds, layers)
}

/// A curve in a cell of a table, with its limit where that is near.
pub(crate) fn spark(levels: &[f64], limit: Option<f64>) -> maud::Markup {
    draw::spark(levels, limit)
}

/// Several curves over one another.
pub(crate) fn curves(curves: &[(&[f64], &[f64])]) -> maud::Markup {
    draw::curves(curves)
}
