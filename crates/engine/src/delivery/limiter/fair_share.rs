//! Which partition gets the last free places of a limiter.

/// A partition that asks for one more place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    /// The places that it holds.
    pub(super) held: usize,
    /// The last result of its receiver was healthy.
    pub(super) healthy: bool,
}

/// The places that all partitions hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// All of them.
    pub(super) places: usize,
    /// Those held by partitions that are not known to be healthy.
    pub(super) by_unproven: usize,
    /// Healthy partitions that hold any.
    pub(super) healthy_partitions: usize,
}

impl Taken {
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            places: self.places + other.places,
            by_unproven: self.by_unproven + other.by_unproven,
            healthy_partitions: self.healthy_partitions + other.healthy_partitions,
        }
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self {
            places: self.places - other.places,
            by_unproven: self.by_unproven - other.by_unproven,
            healthy_partitions: self.healthy_partitions - other.healthy_partitions,
        }
    }
}

/// Whether a partition may take one more place.
///
/// While more than half of the places are free, every partition gets one, so that no place is idle that a partition could use.
/// From then on a partition that is not known to be healthy holds one place at most, and all of these together leave a quarter to
/// the healthy ones: however many receivers hang, each holds its place until its timeout. Healthy partitions leave an
/// eighth to the others, so that a new receiver, or one that has failed once, is tried. Of the last quarter a healthy partition takes no more
/// than an equal share among the healthy ones and one more.
pub(super) fn may_take(asking: Asking, taken: Taken, places: usize) -> bool {
    let free = places.saturating_sub(taken.places);
    if free > places / 2 {
        return true;
    }
    if !asking.healthy {
        return free > 0 && asking.held == 0 && taken.by_unproven < places - places / 4;
    }
    let for_others = (places / 8).saturating_sub(taken.by_unproven);
    let others_that_work = taken.healthy_partitions.saturating_sub(usize::from(asking.held > 0));
    let fair = (places / (others_that_work + 2)).max(1);
    free > for_others && (free > places / 4 || asking.held < fair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(held: usize, healthy: bool, taken: Taken) -> bool {
        may_take(Asking { held, healthy }, taken, 80)
    }

    fn taken(places: usize, by_unproven: usize, healthy_partitions: usize) -> Taken {
        Taken { places, by_unproven, healthy_partitions }
    }

    #[test]
    fn half_of_the_places_is_for_whoever_comes() {
        for healthy in [true, false] {
            assert!(judge(0, healthy, taken(0, 0, 0)) && judge(39, healthy, taken(39, 39, 1)));
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
        for by_unproven in 0..10 {
            assert!(judge(0, false, taken(70 + by_unproven, by_unproven, 10)));
        }
        assert!(!judge(0, false, taken(80, 10, 10)));
        assert!(judge(0, true, taken(79, 10, 10)), "once others have it, nothing is kept for them");
    }

    #[test]
    fn the_last_quarter_is_for_those_that_have_less_than_a_fair_share() {
        for (held, places, healthy_partitions, expected) in [
            (0, 60, 0, true),
            (39, 60, 1, true),
            (40, 60, 1, false),
            (25, 60, 2, true),
            (26, 60, 2, false),
            (0, 69, 1000, true),
            (1, 69, 1000, false),
        ] {
            assert_eq!(
                judge(held, true, taken(places, 0, healthy_partitions)),
                expected,
                "{held} of {places}"
            );
        }
    }

    #[test]
    fn few_places_are_places_too() {
        let nobody = Taken::default();
        for healthy in [true, false] {
            assert!(may_take(Asking { held: 0, healthy }, nobody, 1));
            assert!(!may_take(Asking { held: 0, healthy }, nobody, 0));
        }
    }
}
