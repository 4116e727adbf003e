//! Which lanes are looked at next.

use std::time::Duration;

use tokio::time::Instant;

use crate::webhooks::dispatch::{Found, Which};

/// All lanes are looked at again after this many times as long as it took to read them.
const REST: u32 = 9;
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
        match which {
            // It goes on where it ended, once there is room.
            Which::All if !found.complete => self.all_at = now,
            Which::All => {
                self.busy.clone_from(&found.busy);
                self.all_at = now + (found.reading * REST).min(LONGEST_REST);
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

    fn found(busy: &[i64], reading: Duration) -> Found {
        Found { busy: busy.to_vec(), reading, complete: true, ..Found::default() }
    }

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[tokio::test(start_paused = true)]
    async fn while_no_lane_is_busy_each_look_is_at_all() {
        let mut rounds = Rounds::new();
        for _ in 0..3 {
            assert_eq!(rounds.next(), Which::All);
            assert_eq!(rounds.learn(&Which::All, &found(&[], ms(10))), LONGEST_REST);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lanes_that_are_busy_are_looked_at_in_between() {
        let mut rounds = Rounds::new();
        rounds.learn(&Which::All, &found(&[3, 4], ms(10)));
        let these = Which::These(vec![3, 4]);
        assert_eq!(rounds.next(), these);
        assert_eq!(rounds.learn(&these, &found(&[4], ms(1))), ms(90), "the others wait no longer than that");
        assert_eq!(rounds.next(), Which::These(vec![4]));
        tokio::time::advance(ms(90)).await;
        assert_eq!(rounds.next(), Which::All);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_had_no_room_forgets_nobody() {
        let mut rounds = Rounds::new();
        rounds.learn(&Which::All, &found(&[3], ms(10)));
        let these = Which::These(vec![3]);
        rounds.learn(&these, &Found::default());
        assert_eq!(rounds.next(), these);
        tokio::time::advance(ms(90)).await;
        rounds.learn(&Which::All, &Found::default());
        assert_eq!(rounds.next(), Which::All);
    }

    #[tokio::test(start_paused = true)]
    async fn more_is_taken_at_once_and_a_lane_that_opens_is_not_forgotten() {
        let mut rounds = Rounds::new();
        let more = Found { more: true, ..found(&[3], ms(10)) };
        assert_eq!(rounds.learn(&Which::All, &more), Duration::ZERO);
        let opens = Found { opens_at: Some(Instant::now() + ms(40)), ..found(&[], ms(10)) };
        assert_eq!(rounds.learn(&Which::All, &opens), ms(40));
        let never = Found { reading: Duration::from_secs(60), ..found(&[3], ms(0)) };
        rounds.learn(&Which::All, &never);
        tokio::time::advance(LONGEST_REST).await;
        assert_eq!(rounds.next(), Which::All);
    }
}
