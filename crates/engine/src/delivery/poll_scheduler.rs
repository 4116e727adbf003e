//! When to poll which partitions.

use std::time::Duration;

use tokio::time::Instant;

use super::PartitionKey;
use super::claim::{PollScope, PollSummary};

/// While no more partitions than this have due items and give nothing, each poll is of all.
const FEW: usize = 50;
/// For each partition that had due items and gave nothing, the next poll of all is this much later: about ten times as long as it takes
/// to poll one.
const REST: Duration = Duration::from_micros(100);
/// The longest time between two polls of all while partitions are busy.
const LONGEST_REST: Duration = Duration::from_secs(1);
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Polls all partitions now and then, and the busy ones in between. Where many receivers fail, most partitions have due items
/// and give nothing, and polling them all each time would hold up those that give.
pub(super) struct PollScheduler<K> {
    busy: Vec<K>,
    /// When all are polled again.
    all_at: Instant,
    poll_interval: Duration,
}

impl<K: PartitionKey> PollScheduler<K> {
    pub(super) fn new(poll_interval: Duration) -> Self {
        Self { busy: Vec::new(), all_at: Instant::now(), poll_interval }
    }

    /// Which partitions to poll now.
    pub(super) fn next(&self) -> PollScope<K> {
        if self.busy.is_empty() || self.all_at <= Instant::now() {
            PollScope::All
        } else {
            PollScope::These(self.busy.clone())
        }
    }

    /// Learns from a poll. Returns how long to wait for the next one, unless something wakes the runtime.
    pub(super) fn learn(&mut self, scope: &PollScope<K>, poll: &PollSummary<K>) -> Duration {
        let now = Instant::now();
        let in_vain = poll.polled.saturating_sub(poll.busy.len());
        match scope {
            // It goes on where it ended, once there is room.
            PollScope::All if !poll.complete => self.all_at = now,
            PollScope::All if in_vain <= FEW => self.busy.clear(),
            PollScope::All => {
                self.busy.clone_from(&poll.busy);
                let rest = REST.saturating_mul(u32::try_from(in_vain).unwrap_or(u32::MAX));
                self.all_at = now + rest.min(LONGEST_REST);
            }
            PollScope::These(_) if !poll.complete => {}
            PollScope::These(_) => self.busy.clone_from(&poll.busy),
        }
        if poll.more {
            return Duration::ZERO;
        }
        let again_at = match scope {
            PollScope::All => now + self.poll_interval,
            PollScope::These(_) => self.all_at,
        };
        let again_at = poll.again_at.into_iter().chain([again_at]).min().unwrap_or(again_at);
        let longest = self.poll_interval.max(SHORTEST_WAIT);
        again_at.saturating_duration_since(now).clamp(SHORTEST_WAIT, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(busy: &[i64], in_vain: usize) -> PollSummary<i64> {
        PollSummary {
            busy: busy.to_vec(),
            polled: busy.len() + in_vain,
            complete: true,
            ..PollSummary::default()
        }
    }

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[tokio::test(start_paused = true)]
    async fn while_no_partition_is_busy_each_poll_is_of_all() {
        let mut scheduler = PollScheduler::new(LONGEST_REST);
        for _ in 0..3 {
            assert_eq!(scheduler.next(), PollScope::All);
            assert_eq!(scheduler.learn(&PollScope::All, &poll(&[], 100)), LONGEST_REST);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_few_partitions_give_nothing_each_poll_is_of_all() {
        let mut scheduler = PollScheduler::new(LONGEST_REST);
        scheduler.learn(&PollScope::All, &poll(&[3, 4], FEW));
        assert_eq!(scheduler.next(), PollScope::All);
        scheduler.learn(&PollScope::All, &poll(&[3, 4], FEW + 1));
        assert_eq!(scheduler.next(), PollScope::These(vec![3, 4]));
    }

    #[tokio::test(start_paused = true)]
    async fn busy_partitions_are_polled_in_between() {
        let mut scheduler = PollScheduler::new(LONGEST_REST);
        scheduler.learn(&PollScope::All, &poll(&[3, 4], 100));
        let these = PollScope::These(vec![3, 4]);
        assert_eq!(scheduler.next(), these);
        assert_eq!(scheduler.learn(&these, &poll(&[4], 0)), ms(10), "the others wait no longer than that");
        assert_eq!(scheduler.next(), PollScope::These(vec![4]));
        tokio::time::advance(ms(10)).await;
        assert_eq!(scheduler.next(), PollScope::All);
    }

    #[tokio::test(start_paused = true)]
    async fn poll_without_room_forgets_no_partition() {
        let mut scheduler = PollScheduler::new(LONGEST_REST);
        scheduler.learn(&PollScope::All, &poll(&[3], 100));
        let these = PollScope::These(vec![3]);
        scheduler.learn(&these, &PollSummary::default());
        assert_eq!(scheduler.next(), these);
        tokio::time::advance(ms(10)).await;
        scheduler.learn(&PollScope::All, &PollSummary::default());
        assert_eq!(scheduler.next(), PollScope::All);
    }

    #[tokio::test(start_paused = true)]
    async fn more_is_claimed_at_once_and_an_opening_is_awaited() {
        let mut scheduler = PollScheduler::new(LONGEST_REST);
        let more = PollSummary { more: true, ..poll(&[3], 100) };
        assert_eq!(scheduler.learn(&PollScope::All, &more), Duration::ZERO);
        let opens = PollSummary { again_at: Some(Instant::now() + ms(40)), ..poll(&[], 100) };
        assert_eq!(scheduler.learn(&PollScope::All, &opens), ms(40));
        scheduler.learn(&PollScope::All, &poll(&[3], 1_000_000));
        tokio::time::advance(LONGEST_REST).await;
        assert_eq!(scheduler.next(), PollScope::All);
    }
}
