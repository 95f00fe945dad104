//! One file a verb.

pub(crate) mod asking;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod gpu_helper;
mod guarding;
pub(crate) mod help;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod mark;
pub(crate) mod push;
pub(crate) mod recorder;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod scan;
pub(crate) mod serve;
pub(crate) mod squeeze;
pub(crate) mod subject;
pub(crate) mod watch;
