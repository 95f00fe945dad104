//! The script and the style of the page, made by Vite at build time (see build.rs) or missing.
//!
//! Without them every page still shows its figures as still pictures: nothing here is needed to read an answer.

/// The page's own style: always there.
pub(crate) const STYLE: &str = include_str!("style.css");

#[cfg(page)]
mod built {
    pub(crate) const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/web/app.js"));
    pub(crate) const CHART_STYLE: &str = include_str!(concat!(env!("OUT_DIR"), "/web/app.css"));
    pub(crate) const SCRIPT_SHA256: &str = include_str!(concat!(env!("OUT_DIR"), "/web/app.js.sha256"));
}

#[cfg(not(page))]
mod built {
    pub(crate) const SCRIPT: &str = "";
    pub(crate) const CHART_STYLE: &str = "";
    pub(crate) const SCRIPT_SHA256: &str = "";
}

pub(crate) use built::{CHART_STYLE, SCRIPT, SCRIPT_SHA256};

/// Whether this build has charts that can be zoomed.
pub const fn charts_are_built() -> bool {
    !SCRIPT.is_empty()
}
