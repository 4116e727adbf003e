//! Which part of a log a page shows: the newest, or what was asked for, with the way to what is older and newer.

use super::address::address;
use crate::http::Query;
use crate::problem::Problem;

/// A part of a log.
pub(crate) struct LogPages {
    /// It begins behind this event.
    pub(crate) after: u64,
    /// Whether it is the newest, as nothing else was asked for.
    pub(crate) is_newest: bool,
    pub(crate) older: Option<String>,
    pub(crate) newer: Option<String>,
}

/// The parameter that asks for it.
pub(crate) const AFTER: &str = "after";

/// What is asked for.
pub(crate) fn asked(query: &mut Query) -> Result<Option<u64>, Problem> {
    query.number(AFTER, 0, i64::MAX.unsigned_abs())
}

impl LogPages {
    /// Of a log whose newest event is `seq`, so many events at a time.
    pub(crate) fn of(place: &str, seq: u64, asked: Option<u64>, most: u64) -> Self {
        let newest = seq.saturating_sub(most);
        let after = asked.unwrap_or(newest);
        let behind = |after: u64| address(place, &[(AFTER, Some(&after.to_string()))]);
        Self {
            after,
            is_newest: asked.is_none(),
            older: (after > 0).then(|| behind(after.saturating_sub(most))),
            newer: (after < newest).then(|| match after.saturating_add(most) {
                next if next < newest => behind(next),
                _ => place.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_shown_and_the_rest_is_reached_from_there_and_back() {
        let ways = |asked| {
            let pages = LogPages::of("/x", 250, asked, 100);
            (pages.after, pages.older, pages.newer)
        };
        let at = |after: u64| Some(format!("/x?after={after}"));
        assert_eq!(ways(None), (150, at(50), None));
        assert_eq!(ways(Some(50)), (50, at(0), Some("/x".to_owned())));
        assert_eq!(ways(Some(0)), (0, None, at(100)));
        let short = LogPages::of("/x", 100, None, 100);
        assert_eq!((short.after, short.older, short.newer), (0, None, None));
    }
}
