//! `lowtide man`: the manual, from the same declaration as the help.

use crate::cli;
use crate::failure::Failure;
use crate::render;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn man(to: Option<&Path>) -> Result<ExitCode, Failure> {
    let mut declaration = cli::declaration();
    declaration.build();
    match to {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            clap_mangen::generate_to(declaration, folder)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(declaration).render(&mut page)?;
            render::bytes(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
