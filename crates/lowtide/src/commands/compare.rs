//! `lowtide compare`.
use crate::cli::CompareArgs;
use crate::failure::Failure;
use std::process::ExitCode;
pub(crate) fn compare(_args: &CompareArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("this command is not there yet"))
}
