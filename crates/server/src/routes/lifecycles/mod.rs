//! Lifecycles: the machines that are declared, and what each of their instances is asked and told.

pub(super) mod apply;
pub(super) mod dead_letters;
mod event;
pub(super) mod events;
pub(super) mod list;
pub(super) mod log;
pub(super) mod look;
mod problems;
pub(super) mod put;
pub(super) mod show;
pub(super) mod start;
pub(super) mod steer;
mod stuck;
mod view;
mod written;

use backstitch_modules::lifecycles::{Error, sites};

use crate::problem::Problem;

pub(super) use event::LifecycleEvent;
pub(crate) use problems::told;
pub(crate) use show::written_for;
pub(super) use stuck::StuckLifecycles;
pub(super) use view::View;

/// The server makes this machine from its configuration.
pub(crate) fn refuse_the_servers_own(name: &str) -> Result<(), Problem> {
    if name == sites::MACHINE {
        return Err(Error::BuiltIn(name.to_owned()).into());
    }
    Ok(())
}
