//! Who gets the last places.

/// Whether a lane that holds this many of the places may take one more.
///
/// While there are plenty, whoever comes gets one, so that no place is idle that somebody could use. The last quarter is
/// for those who hold less than they would have if all who are there, and one more, shared alike: of many slow ones each
/// gives up what it has too much as it ends, and who comes later finds room at once.
pub(super) fn may_take(held: usize, taken: usize, lanes: usize, places: usize) -> bool {
    let free = places.saturating_sub(taken);
    let fair = (places / (lanes + 1)).max(1);
    free > places / 4 || (free > 0 && held < fair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_quarter_is_for_those_who_have_less_than_a_fair_share() {
        for (held, taken, lanes, expected) in [
            (0, 0, 1, true),
            (74, 74, 1, true),
            (75, 75, 2, false),
            (32, 75, 2, true),
            (33, 75, 2, false),
            (0, 99, 3, true),
            (0, 100, 3, false),
            (0, 99, 1000, true),
            (1, 99, 1000, false),
        ] {
            assert_eq!(may_take(held, taken, lanes, 100), expected, "{held} of {taken}, {lanes} lanes");
        }
        assert!(!may_take(75, 75, 1, 100), "who is alone leaves room for whoever comes next");
        assert!(may_take(0, 0, 1, 1) && !may_take(0, 0, 1, 0));
    }
}
