//! Suggestions for an unknown name or id.

use serde_json::Value;

use super::client::{Ask, Error};
use super::listing::ListPage;
use super::session::Session;
use super::status::worded;
use super::table::{member, plain};
use crate::commands::Failure;

/// The number of suggestions.
const FEW: usize = 3;
/// The number of recent sagas that are compared.
const RECENT: u32 = 100;

/// The kinds of problems for an unknown name of a definition.
const UNKNOWN: [&str; 4] = ["unknown-definition", "definition-not-found", "nothing-staged", "raced"];

/// Adds similar recent sagas to the problem.
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

/// Similar recent sagas, one per line, with a title; none if there are none, or the key may not list them.
pub(crate) async fn nearest_sagas(session: &Session, id: &str) -> Vec<String> {
    let Ok(page) = ListPage::get(session, "/v1/sagas", &[], Some(RECENT), None).await else {
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

/// Adds similar names to the problem.
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
    // Definitions in code are not declared, but may have sagas.
    if let Ok(page) = ListPage::get(session, "/v1/sagas", &[], Some(RECENT), None).await {
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
