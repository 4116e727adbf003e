//! `backstitch man`

use std::path::PathBuf;

use super::Failure;
use crate::cli::output::print;

/// Options of the manual.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  backstitch man | man -l -\n  backstitch man --dir ~/.local/share/man/man1"
)]
pub(crate) struct Args {
    /// Write a page for every command into this directory, created if missing.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Prints the first manual page, or writes all of them.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn run(args: &Args, program: clap::Command) -> Result<(), Failure> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(program).render(&mut page)?;
        return Ok(print(&String::from_utf8_lossy(&page))?);
    };
    let unwritable = |why: std::io::Error| format!("{} cannot be written to: {why}", dir.display());
    std::fs::create_dir_all(dir).map_err(unwritable)?;
    clap_mangen::generate_to(program, dir).map_err(unwritable)?;
    Ok(print(&format!("the manual is in {}\n", dir.display()))?)
}
