//! The lowtide command: parses, calls one verb, prints, exits. One printer, one exit.

mod cli;
mod commands;
mod duration;
mod failure;
mod relay;
mod render;
mod screen;

use clap::FromArgMatches;
use cli::{Cli, Command};
use failure::{COULD_NOT, Failure};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = match cli::declaration().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(error) => {
            let _ = error.print();
            render::complain(&commands::help::dashes(&error, &words).unwrap_or_default());
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let result = Cli::from_arg_matches(&matches).map_err(Failure::from).and_then(|cli| dispatch(cli.command));
    match result {
        Ok(code) => code,
        Err(failure) => {
            render::complain(&failure.text());
            ExitCode::from(COULD_NOT)
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(args) => commands::run::run(args),
        Command::Watch(args) => commands::watch::watch(&args),
        Command::Explain(args) => commands::explain::explain(&args),
        Command::Scan(args) => commands::scan::scan(&args),
        Command::Squeeze(args) => commands::squeeze::squeeze(&args),
        Command::Check(args) => commands::check::check(&args),
        Command::Compare(args) => commands::compare::compare(&args),
        Command::Report(args) => commands::report::report(&args),
        Command::Serve(args) => commands::serve::serve(args),
        Command::List(args) => commands::list::list(&args),
        Command::Export(args) => commands::export::export(&args),
        Command::Mark(args) => commands::mark::mark(&args),
        Command::Doctor(args) => commands::doctor::doctor(&args),
        Command::Demo(args) => commands::demo::demo(args),
        Command::Completions { shell } => commands::completions::completions(shell),
        Command::Help { of } => commands::help::help(of.as_deref()),
        Command::Man { to } => commands::man::man(to.as_deref()),
        Command::Relay(args) => commands::run::relay(&args),
        Command::GpuHelper { every_ms } => commands::gpu_helper::gpu_helper(every_ms),
        Command::ScanHelper => commands::scan::helper(),
        Command::DemoJob { part } => commands::demo::job(part),
    }
}
