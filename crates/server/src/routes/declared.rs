//! What definitions and machines have in common: they are put in, applied and discarded alike.

use axum::http::StatusCode;
use backstitch::Declaring;

use crate::http::Query;
use crate::problem::Problem;

/// Whether what is put in is to be taken at once.
pub(super) fn at_once(mut query: Query) -> Result<bool, Problem> {
    let apply = query.read("apply", |text| text.parse().ok(), "use true or false")?;
    query.finish("apply")?;
    Ok(apply.unwrap_or(false))
}

/// Refuses what says another name than its address.
pub(super) fn goes_by(written: &str, address: &str) -> Result<(), Problem> {
    if written == address {
        return Ok(());
    }
    let message = format!("is `{written}`, but the address says `{address}`: make them the same");
    Err(Problem::field("name", message))
}

/// How it is told what became of it: the status, and the standing in words.
pub(super) fn told(Declaring { is_new, is_active, .. }: Declaring) -> (StatusCode, &'static str) {
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    (status, if is_active { "active" } else { "staged" })
}

/// The version that whoever applies or discards means; whichever is staged unless given.
pub(super) fn meant(mut query: Query) -> Result<Option<u32>, Problem> {
    let version = query.number("version", 1, i32::MAX.unsigned_abs())?;
    query.finish("version")?;
    Ok(version)
}
