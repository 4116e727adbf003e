//! `backstitch completions`

use super::Failure;
use crate::cli::output::print;

/// The shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  backstitch completions bash > ~/.local/share/bash-completion/completions/backstitch\n  \
    backstitch completions zsh > ~/.zfunc/_backstitch\n  \
    backstitch completions fish > ~/.config/fish/completions/backstitch.fish"
)]
pub(crate) struct Args {
    shell: clap_complete::Shell,
}

/// Prints shell completions.
///
/// # Errors
/// When it cannot be printed.
pub(crate) fn run(args: &Args, mut program: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "backstitch", &mut script);
    Ok(print(&String::from_utf8_lossy(&script))?)
}
