//! `lowtide check`.
use crate::cli::CheckArgs;
use crate::failure::Failure;
use std::process::ExitCode;
pub(crate) fn check(_args: &CheckArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new("this command is not there yet"))
}
