//! Resolves an id or its prefix.

use super::listing::ListPage;
use super::near::nearest_sagas;
use super::session::Session;
use super::table::{member, plain};
use super::text::shown;
use crate::commands::Failure;

/// The shortest prefix.
const FEWEST: usize = 4;
const DIGITS: usize = 32;

/// The full id of the saga.
///
/// Lists of sagas start at any id, so one request finds all ids with this prefix.
pub(crate) async fn whole(session: &Session, written: &str) -> Result<String, Failure> {
    let Some(last) = last_that_begins_so(written) else { return Ok(written.to_owned()) };
    let found = ListPage::get(session, "/v1/sagas", &[], Some(2), Some(last)).await?;
    let begins = digits(written).unwrap_or_default();
    let ids: Vec<String> = found.items().iter().map(|saga| plain(member(saga, "id"))).collect();
    let ids: Vec<String> =
        ids.into_iter().filter(|id| digits(id).is_some_and(|id| id.starts_with(&begins))).collect();
    match <[String; 1]>::try_from(ids) {
        Ok([id]) => Ok(id),
        Err(several) if several.is_empty() => {
            let mut told = format!("there is no saga {}", shown(written));
            for line in nearest_sagas(session, written).await {
                told = format!("{told}\n  {line}");
            }
            Err(told.into())
        }
        Err(several) => Err(format!(
            "several sagas begin with {}: give more of the id\n    {}\n    …",
            shown(written),
            several.join("\n    ")
        )
        .into()),
    }
}

/// The digits of an id; none if it is invalid.
fn digits(written: &str) -> Option<String> {
    let digits: String = written.chars().filter(|char| *char != '-').collect();
    digits.chars().all(|char| char.is_ascii_hexdigit()).then(|| digits.to_ascii_lowercase())
}

/// The largest id with this prefix; none for a full or an invalid id, which the server checks.
fn last_that_begins_so(written: &str) -> Option<String> {
    let begins = digits(written).filter(|digits| (FEWEST..DIGITS).contains(&digits.len()))?;
    let all = format!("{begins:f<DIGITS$}");
    let parts = [&all[..8], &all[8..12], &all[12..16], &all[16..20], &all[20..]];
    Some(parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_made_up_to_the_largest_one() {
        let last = last_that_begins_so("0192ABCD-12");
        assert_eq!(last.as_deref(), Some("0192abcd-12ff-ffff-ffff-ffffffffffff"));
    }

    #[test]
    fn full_and_invalid_ids_are_left_to_the_server() {
        for written in ["01923c4e-5b6a-7000-8000-000000000001", "", "019", "order-17", "0192zzzz"] {
            assert_eq!(last_that_begins_so(written), None, "{written}");
        }
    }
}
