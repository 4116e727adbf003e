//! Which lanes are looked at next.

use std::time::Duration;

use tokio::time::Instant;

use crate::webhooks::dispatch::{Found, Which};

/// As long as no more lanes than this have something and give nothing, each look is at all.
const FEW: usize = 50;
/// For each lane that had something and gave nothing, all are looked at this much later: about ten times as long as it takes
/// to look at one.
const REST: Duration = Duration::from_micros(100);
/// What other nodes made is found within this time.
const LONGEST_REST: Duration = Duration::from_secs(1);
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Looks at all lanes now and then, and in between at those that are busy: where many endpoints do not work, most lanes have
/// something that waits and give nothing, and to ask them all each time would hold up those that give.
pub(super) struct Rounds {
    busy: Vec<i64>,
    /// When all are looked at again.
    all_at: Instant,
}

impl Rounds {
    pub(super) fn new() -> Self {
        Self { busy: Vec::new(), all_at: Instant::now() }
    }

    /// Which lanes to look at now.
    pub(super) fn next(&self) -> Which {
        if self.busy.is_empty() || self.all_at <= Instant::now() {
            Which::All
        } else {
            Which::These(self.busy.clone())
        }
    }

    /// Learns what a look at these found; how long there is nothing to do unless somebody says so.
    pub(super) fn learn(&mut self, which: &Which, found: &Found) -> Duration {
        let now = Instant::now();
        let in_vain = found.seen.saturating_sub(found.busy.len());
        match which {
            // It goes on where it ended, once there is room.
            Which::All if !found.complete => self.all_at = now,
            Which::All if in_vain <= FEW => self.busy.clear(),
            Which::All => {
                self.busy.clone_from(&found.busy);
                let rest = REST.saturating_mul(u32::try_from(in_vain).unwrap_or(u32::MAX));
                self.all_at = now + rest.min(LONGEST_REST);
            }
            Which::These(_) if !found.complete => {}
            Which::These(_) => self.busy.clone_from(&found.busy),
        }
        if found.more {
            return Duration::ZERO;
        }
        let again_at = match which {
            Which::All => now + LONGEST_REST,
            Which::These(_) => self.all_at,
        };
        let again_at = found.opens_at.into_iter().chain([again_at]).min().unwrap_or(again_at);
        again_at.saturating_duration_since(now).clamp(SHORTEST_WAIT, LONGEST_REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(busy: &[i64], in_vain: usize) -> Found {
        Found { busy: busy.to_vec(), seen: busy.len() + in_vain, complete: true, ..Found::default() }
    }

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[tokio::test(start_paused = true)]
    async fn while_no_lane_is_busy_each_look_is_at_all() {
        let mut rounds = Rounds::new();
        for _ in 0..3 {
            assert_eq!(rounds.next(), Which::All);
            assert_eq!(rounds.learn(&Which::All, &found(&[], 100)), LONGEST_REST);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_few_lanes_give_nothing_each_look_is_at_all() {
        let mut rounds = Rounds::new();
        rounds.learn(&Which::All, &found(&[3, 4], FEW));
        assert_eq!(rounds.next(), Which::All);
        rounds.learn(&Which::All, &found(&[3, 4], FEW + 1));
        assert_eq!(rounds.next(), Which::These(vec![3, 4]));
    }

    #[tokio::test(start_paused = true)]
    async fn lanes_that_are_busy_are_looked_at_in_between() {
        let mut rounds = Rounds::new();
        rounds.learn(&Which::All, &found(&[3, 4], 100));
        let these = Which::These(vec![3, 4]);
        assert_eq!(rounds.next(), these);
        assert_eq!(rounds.learn(&these, &found(&[4], 0)), ms(10), "the others wait no longer than that");
        assert_eq!(rounds.next(), Which::These(vec![4]));
        tokio::time::advance(ms(10)).await;
        assert_eq!(rounds.next(), Which::All);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_had_no_room_forgets_nobody() {
        let mut rounds = Rounds::new();
        rounds.learn(&Which::All, &found(&[3], 100));
        let these = Which::These(vec![3]);
        rounds.learn(&these, &Found::default());
        assert_eq!(rounds.next(), these);
        tokio::time::advance(ms(10)).await;
        rounds.learn(&Which::All, &Found::default());
        assert_eq!(rounds.next(), Which::All);
    }

    #[tokio::test(start_paused = true)]
    async fn more_is_taken_at_once_and_a_lane_that_opens_is_not_forgotten() {
        let mut rounds = Rounds::new();
        let more = Found { more: true, ..found(&[3], 100) };
        assert_eq!(rounds.learn(&Which::All, &more), Duration::ZERO);
        let opens = Found { opens_at: Some(Instant::now() + ms(40)), ..found(&[], 100) };
        assert_eq!(rounds.learn(&Which::All, &opens), ms(40));
        rounds.learn(&Which::All, &found(&[3], 1_000_000));
        tokio::time::advance(LONGEST_REST).await;
        assert_eq!(rounds.next(), Which::All);
    }
}
