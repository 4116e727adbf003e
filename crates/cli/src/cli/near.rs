//! What was probably meant by a name or an id that nobody knows.

use serde_json::Value;

use super::client::{Ask, Error};
use super::listing::Page;
use super::session::Session;
use super::status::worded;
use super::table::{member, plain};
use crate::commands::Failure;

/// How many are suggested.
const FEW: usize = 3;
/// Among how many of the newest sagas is looked.
const RECENT: u32 = 100;

/// How a server answers to a name of a definition that it does not know; it may know it all the same.
const UNKNOWN: [&str; 4] = ["unknown-definition", "definition-not-found", "nothing-staged", "raced"];

/// Adds the nearest of the newest sagas to the answer that there is no such saga.
pub(crate) async fn unknown_saga(session: &Session, id: &str, why: impl Into<Failure>) -> Failure {
    let mut why = why.into();
    if let Some(Error::Refused(refusal)) = why.downcast_mut()
        && matches!(refusal.kind.as_str(), "saga-not-found" | "bad-id")
    {
        for hint in nearest_sagas(session, id).await {
            refusal.hint(hint);
        }
    }
    why
}

/// The nearest of the newest sagas, a line each, with a title; nothing where there are none, or none may be seen.
pub(crate) async fn nearest_sagas(session: &Session, id: &str) -> Vec<String> {
    let Ok(page) = Page::get(session, "/v1/sagas", &[], Some(RECENT), None).await else {
        return Vec::new();
    };
    let mut sagas = page.items();
    if sagas.is_empty() {
        return vec!["there is no saga yet: start one with `backstitch start DEFINITION`".to_owned()];
    }
    let plain_id = |saga: &Value| plain(member(saga, "id"));
    sagas.sort_by_key(|saga| strsim::damerau_levenshtein(id, &plain_id(saga)));
    let line = |saga: &Value| {
        let status = worded(&plain(member(saga, "status")));
        format!("  {}  {status}  {}", plain_id(saga), plain(member(saga, "definition")))
    };
    let title = "the nearest of the newest sagas (`backstitch ps` lists them):".to_owned();
    std::iter::once(title).chain(sagas.iter().take(FEW).map(line)).collect()
}

/// Adds the nearest names to the answer that there is no such definition, or nothing staged of it.
pub(crate) async fn unknown_definition(session: &Session, name: &str, why: impl Into<Failure>) -> Failure {
    let mut why = why.into();
    if let Some(Error::Refused(refusal)) = why.downcast_mut()
        && UNKNOWN.contains(&refusal.kind.as_str())
        && let Some(hint) = nearest_definitions(session, name).await
    {
        refusal.hint(hint);
    }
    why
}

async fn nearest_definitions(session: &Session, name: &str) -> Option<String> {
    let answer = session.ask(Ask::get("/v1/definitions").query(&[("limit", "1000")])).await.ok()?;
    let mut names: Vec<String> =
        answer.value["items"].as_array()?.iter().map(|item| plain(member(item, "name"))).collect();
    // What is defined in code is not declared, but there may be sagas of it.
    if let Ok(page) = Page::get(session, "/v1/sagas", &[], Some(RECENT), None).await {
        names.extend(page.items().iter().map(|saga| plain(member(saga, "definition"))));
    }
    if names.iter().any(|known| known == name) {
        return None;
    }
    names.sort_by_key(|known| (strsim::damerau_levenshtein(name, known), known.clone()));
    names.dedup();
    if names.is_empty() {
        return Some("nothing is declared yet: `backstitch definitions put FILE --apply`".to_owned());
    }
    let near: Vec<String> = names.iter().take(FEW).map(|known| format!("`{known}`")).collect();
    Some(format!("did you mean {}?", near.join(" or ")))
}
