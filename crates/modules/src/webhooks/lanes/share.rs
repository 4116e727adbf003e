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
    /// Those of them that lanes have of whose endpoints nothing good is known.
    pub(super) by_others: usize,
    /// Lanes that have any and whose endpoints work, so far as is known.
    pub(super) proven_lanes: usize,
}

/// Whether a lane may take one more of the places.
///
/// While half of them are free, whoever comes gets one, so that no place is idle that somebody could use. From then on an
/// endpoint of which nothing good is known gets one at a time. All of these together leave a quarter to those that work:
/// however many hang, each until its time is up. Those that work leave an eighth to the others, so that whoever comes anew, or
/// has failed once, is heard; and of the last quarter they take no more than if all that work, and one more, shared all places
/// alike.
pub(super) fn may_take(asking: Asking, taken: Taken, places: usize) -> bool {
    let free = places.saturating_sub(taken.places);
    if free > places / 2 {
        return true;
    }
    if !asking.proven {
        return free > 0 && asking.held == 0 && taken.by_others < places - places / 4;
    }
    let for_others = (places / 8).saturating_sub(taken.by_others);
    let others_that_work = taken.proven_lanes.saturating_sub(usize::from(asking.held > 0));
    let fair = (places / (others_that_work + 2)).max(1);
    free > for_others && (free > places / 4 || asking.held < fair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(held: usize, proven: bool, taken: Taken) -> bool {
        may_take(Asking { held, proven }, taken, 80)
    }

    fn taken(places: usize, by_others: usize, proven_lanes: usize) -> Taken {
        Taken { places, by_others, proven_lanes }
    }

    #[test]
    fn half_of_the_places_is_for_whoever_comes() {
        for proven in [true, false] {
            assert!(judge(0, proven, taken(0, 0, 0)) && judge(39, proven, taken(39, 39, 1)));
        }
    }

    #[test]
    fn then_an_endpoint_of_which_nothing_good_is_known_gets_one_at_a_time_and_all_of_them_leave_a_quarter() {
        assert!(judge(0, false, taken(40, 40, 0)) && judge(0, false, taken(59, 59, 0)));
        assert!(!judge(1, false, taken(40, 40, 0)) && !judge(0, false, taken(60, 60, 0)));
        assert!(judge(19, true, taken(79, 60, 1)), "what they leave is there for one that works");
    }

    #[test]
    fn those_that_work_leave_an_eighth_to_whoever_comes_anew() {
        assert!(!judge(0, true, taken(70, 0, 10)));
        for by_others in 0..10 {
            assert!(judge(0, false, taken(70 + by_others, by_others, 10)));
        }
        assert!(!judge(0, false, taken(80, 10, 10)));
        assert!(judge(0, true, taken(79, 10, 10)), "once others have it, nothing is kept for them");
    }

    #[test]
    fn the_last_quarter_is_for_those_that_have_less_than_a_fair_share() {
        for (held, places, proven_lanes, expected) in [
            (0, 60, 0, true),
            (39, 60, 1, true),
            (40, 60, 1, false),
            (25, 60, 2, true),
            (26, 60, 2, false),
            (0, 69, 1000, true),
            (1, 69, 1000, false),
        ] {
            assert_eq!(judge(held, true, taken(places, 0, proven_lanes)), expected, "{held} of {places}");
        }
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
