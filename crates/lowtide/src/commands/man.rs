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
            let cannot =
                |error| Failure::new(format!("cannot write into {}", folder.display())).because(error);
            std::fs::create_dir_all(folder).map_err(cannot)?;
            clap_mangen::generate_to(declaration, folder)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(declaration).render(&mut page)?;
            render::say(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
