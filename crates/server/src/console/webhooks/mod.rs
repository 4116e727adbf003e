//! Webhooks: who gets what, how it goes, what was given up and how it is sent after all.

pub(super) mod dead_letters;
pub(super) mod deliveries;
pub(super) mod delivery;
pub(super) mod operate;
pub(super) mod requeue;
mod rows;
pub(super) mod subscription;
pub(super) mod subscriptions;

use crate::http::Query;
use crate::problem::Problem;

/// The number of something, in a parameter that may be empty.
fn number(query: &mut Query, name: &str) -> Result<Option<i64>, Problem> {
    let Some(text) = query.text(name).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    positive(&text).map(Some).ok_or_else(|| {
        crate::http::bad_query(name, &format!("is `{text}`: use a number, as the lists have it"))
    })
}

fn positive(text: &str) -> Option<i64> {
    text.trim().parse().ok().filter(|number| *number > 0)
}

/// Where the page before ended.
fn cursor(query: &mut Query) -> Result<Option<i64>, Problem> {
    query.read("cursor", positive, "use the address of the page before")
}

fn subscription_place(id: i64) -> String {
    format!("/webhooks/subscriptions/{id}")
}

fn delivery_place(id: i64) -> String {
    format!("/webhooks/deliveries/{id}")
}
