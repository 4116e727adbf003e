//! Declared definitions: staged, looked at, applied and discarded.

pub(super) mod apply;
pub(super) mod check;
pub(super) mod document;
pub(super) mod list;
pub(super) mod put;
pub(super) mod show;
pub(super) mod written;

use backstitch_modules::orders;
use serde::Serialize;

use crate::problem::{Kind, Problem};

/// Sagas that have not ended, on one version.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct InFlight {
    /// The version they were started with and keep.
    version: u32,
    /// How many there are; 10,001 stands for more than 10,000.
    sagas: u64,
}

pub(super) fn in_flight(counted: &[backstitch::store::declared::InFlight]) -> Vec<InFlight> {
    counted.iter().map(|count| InFlight { version: count.version, sagas: count.sagas }).collect()
}

/// The definition of orders is made from settings of its own.
pub(crate) fn refuse_the_servers_own(name: &str) -> Result<(), Problem> {
    if name == orders::DEFINITION {
        let detail = format!("`{name}` is made by this server: change it under /v1/admin/config");
        return Err(Problem::new(Kind::NameTaken, detail));
    }
    Ok(())
}

fn unknown(name: &str) -> Problem {
    let detail = format!("nothing is declared under `{name}`: GET /v1/definitions lists what is");
    Problem::new(Kind::DefinitionNotFound, detail)
}
