//! Who gets the last places.

/// A lane that would have one more place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    /// What it has.
    pub(super) held: usize,
    /// Its endpoint did its work the last time that something was heard of it.
    pub(super) proven: bool,
}

/// What all lanes have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Places.
    pub(super) places: usize,
    /// Lanes that have any and whose endpoints work, so far as is known.
    pub(super) by_proven: usize,
}

/// Whether a lane may take one more of the places.
///
/// While half of them are free, whoever comes gets one, so that no place is idle that somebody could use. From then on an
/// endpoint of which nothing good is known gets one at a time, and the last quarter is for those that work: however many
/// others hang, each until its time is up, they leave that much. It goes to those who hold less than they would have if all
/// that work, and one more, shared all places alike.
pub(super) fn may_take(asking: Asking, taken: Taken, places: usize) -> bool {
    let free = places.saturating_sub(taken.places);
    let (plenty, enough) = (free > places / 2, free > places / 4);
    if plenty || !asking.proven {
        return plenty || (enough && asking.held == 0);
    }
    let others = taken.by_proven.saturating_sub(usize::from(asking.held > 0));
    let fair = (places / (others + 2)).max(1);
    enough || (free > 0 && asking.held < fair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(held: usize, proven: bool, places: usize, by_proven: usize) -> bool {
        may_take(Asking { held, proven }, Taken { places, by_proven }, 100)
    }

    #[test]
    fn half_of_the_places_is_for_whoever_comes() {
        for proven in [true, false] {
            assert!(judge(0, proven, 0, 0) && judge(49, proven, 49, 1));
        }
    }

    #[test]
    fn then_an_endpoint_of_which_nothing_good_is_known_gets_one_at_a_time() {
        assert!(judge(0, false, 50, 0) && judge(0, false, 74, 0));
        assert!(!judge(1, false, 50, 0) && !judge(0, false, 75, 0));
        assert!(judge(50, true, 50, 1) && judge(74, true, 74, 1));
    }

    #[test]
    fn the_last_quarter_is_for_those_that_work_and_have_less_than_a_fair_share() {
        for (held, taken, by_proven, expected) in [
            (0, 75, 0, true),
            (49, 75, 1, true),
            (50, 75, 1, false),
            (32, 75, 2, true),
            (33, 75, 2, false),
            (0, 99, 3, true),
            (0, 100, 3, false),
            (0, 99, 1000, true),
            (1, 99, 1000, false),
        ] {
            assert_eq!(judge(held, true, taken, by_proven), expected, "{held} of {taken}, {by_proven} lanes");
        }
        assert!(!judge(75, true, 75, 1), "who is alone leaves room for whoever comes next");
    }

    #[test]
    fn few_places_are_places_too() {
        let nobody = Taken::default();
        for proven in [true, false] {
            assert!(may_take(Asking { held: 0, proven }, nobody, 1));
            assert!(!may_take(Asking { held: 0, proven }, nobody, 0));
        }
    }
}
