//! How often somebody may ask, and how often a wrong key may be tried.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::{HashMapStateStore, ShrinkableKeyedStateStore};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

use crate::config::Limits;
use crate::problem::Problem;

/// Wrong keys a minute from one address.
const WRONG_KEYS: NonZeroU32 = NonZeroU32::new(20).unwrap();
/// Addresses that are told apart at once, so that whoever comes from ever new ones fills no memory.
const ADDRESSES: usize = 10_000;
/// What must be answered however busy somebody is: those who look after the server ask for it.
const NEVER_LIMITED: [&str; 3] = ["/health/live", "/health/ready", "/metrics"];

/// Whether requests for this route are counted.
pub(crate) fn is_limited(route: &str) -> bool {
    !NEVER_LIMITED.contains(&route)
}

/// Whose requests are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// The holder of this key.
    Key(i64),
    /// Whoever is at this address.
    Address(IpAddr),
    /// All for whom there is no room.
    Others,
}

impl Who {
    /// Whoever is at the other end. An IPv6 network counts as one address: its owner has more of them than can be counted.
    pub(crate) fn at(peer: Option<SocketAddr>) -> Self {
        match peer.map(|peer| peer.ip().to_canonical()) {
            Some(IpAddr::V6(address)) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self::Address(Ipv6Addr::from_bits(network).into())
            }
            Some(address) => Self::Address(address),
            None => Self::Others,
        }
    }
}

/// Counts requests, and keys that were wrong.
pub(crate) struct Rates {
    requests: Option<Limiter>,
    wrong_keys: Limiter,
}

impl Rates {
    pub(crate) fn new(limits: &Limits) -> Self {
        let quota = NonZeroU32::new(limits.requests_per_second)
            .map(|rate| Quota::per_second(rate).allow_burst(NonZeroU32::new(limits.burst).unwrap_or(rate)));
        Self { requests: quota.map(Limiter::new), wrong_keys: Limiter::new(Quota::per_minute(WRONG_KEYS)) }
    }

    /// Counts a request.
    pub(crate) fn request(&self, who: Who) -> Result<(), Problem> {
        let Some(requests) = &self.requests else { return Ok(()) };
        requests.count(who).map_err(|wait| {
            Problem::too_many_requests(wait, "too many requests: ask again after the time of Retry-After")
        })
    }

    /// Counts a wrong key.
    pub(crate) fn wrong_key(&self, who: Who) -> Result<(), Problem> {
        self.wrong_keys.count(who).map_err(|wait| {
            let detail = "too many wrong API keys came from this address: send one that is good";
            Problem::too_many_requests(wait, detail)
        })
    }

    /// Forgets whoever has been quiet for long enough. To be called now and then.
    pub(crate) fn upkeep(&self) {
        for limiter in self.requests.iter().chain([&self.wrong_keys]) {
            limiter.0.retain_recent();
        }
    }
}

struct Limiter(RateLimiter<Who, Accounts, Ticks, NoOpMiddleware<Duration>>);

impl Limiter {
    fn new(quota: Quota) -> Self {
        Self(RateLimiter::new(quota, Accounts::default(), Ticks(Instant::now())))
    }

    /// Counts one, or says how long to wait.
    fn count(&self, who: Who) -> Result<(), Duration> {
        self.0.check_key(&who).map_err(|until| until.wait_time_from(self.0.clock().now()))
    }
}

/// What each has asked for. Keys are apart, so that their holders take no room from addresses: nobody can make up keys.
#[derive(Default)]
struct Accounts {
    keys: HashMapStateStore<Who>,
    addresses: HashMapStateStore<Who>,
}

impl Accounts {
    /// The account of whoever is at an address: their own if they have one, or if there is room for one more.
    fn at(&self, who: Who) -> Who {
        // Some who come at the same moment may all find the last place free: a few more do no harm.
        let known = self.addresses.lock();
        if known.len() < ADDRESSES || known.contains_key(&who) { who } else { Who::Others }
    }
}

impl StateStore for Accounts {
    type Key = Who;

    fn measure_and_replace<T, F, E>(&self, who: &Who, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        match who {
            Who::Key(_) => self.keys.measure_and_replace(who, measure),
            Who::Address(_) | Who::Others => self.addresses.measure_and_replace(&self.at(*who), measure),
        }
    }
}

impl ShrinkableKeyedStateStore<Who> for Accounts {
    fn retain_recent(&self, drop_below: Nanos) {
        self.keys.retain_recent(drop_below);
        self.addresses.retain_recent(drop_below);
    }

    fn len(&self) -> usize {
        self.keys.len() + self.addresses.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The time since this began.
struct Ticks(Instant);

impl Clock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::RETRY_AFTER;
    use axum::response::IntoResponse;

    use super::*;

    fn rates(requests_per_second: u32, burst: u32) -> Rates {
        Rates::new(&Limits { requests_per_second, burst, ..Limits::default() })
    }

    fn at(address: &str) -> Who {
        Who::at(Some(SocketAddr::new(address.parse().unwrap(), 4711)))
    }

    fn numbered(address: u32) -> Who {
        Who::Address(std::net::Ipv4Addr::from_bits(address).into())
    }

    /// How many are let through before one is not, and how long that one has to wait.
    fn until_refused(mut count: impl FnMut() -> Result<(), Problem>) -> (usize, String) {
        for passed in 0..100_000 {
            if let Err(problem) = count() {
                let answer = problem.into_response();
                assert_eq!(answer.status(), 429);
                return (passed, answer.headers()[RETRY_AFTER].to_str().unwrap().to_owned());
            }
        }
        panic!("nothing is refused");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_too_often_waits_and_nobody_else_does() {
        let rates = rates(2, 5);
        let (one, other) = (Who::Key(1), Who::Key(2));
        assert_eq!(until_refused(|| rates.request(one)), (5, "1".to_owned()));
        tokio::time::advance(Duration::from_millis(499)).await;
        assert!(rates.request(one).is_err());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(until_refused(|| rates.request(one)).0, 1, "two a second");
        assert_eq!(until_refused(|| rates.request(other)).0, 5);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(until_refused(|| rates.request(one)).0, 5, "rest is not saved up beyond the burst");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_burst_the_rate_is_the_burst_and_without_a_rate_nothing_is_counted() {
        let limited = rates(7, 0);
        assert_eq!(until_refused(|| limited.request(Who::Key(1))).0, 7);
        let unlimited = rates(0, 9);
        assert!((0..1000).all(|_| unlimited.request(Who::Key(1)).is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn twenty_wrong_keys_a_minute_are_judged_and_no_more() {
        let rates = rates(0, 0);
        let guesser = at("192.0.2.1");
        assert_eq!(until_refused(|| rates.wrong_key(guesser)), (20, "3".to_owned()));
        assert!(rates.wrong_key(at("192.0.2.2")).is_ok());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(until_refused(|| rates.wrong_key(guesser)).0, 20);
    }

    #[test]
    fn an_address_is_one_however_it_is_written_and_a_network_of_ipv6_is_one() {
        assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
        assert_eq!(at("2001:db8:1:2::1"), at("2001:db8:1:2:ffff::7"));
        assert_ne!(at("2001:db8:1:2::1"), at("2001:db8:1:3::1"));
    }

    #[tokio::test(start_paused = true)]
    async fn ever_new_addresses_fill_no_memory_and_the_quiet_are_forgotten() {
        let rates = rates(0, 0);
        let judged = (0..20_000).filter(|number| rates.wrong_key(numbered(*number)).is_ok()).count();
        assert_eq!(judged, ADDRESSES + 20, "those without room share what one address has");
        assert_eq!(rates.wrong_keys.0.len(), ADDRESSES + 1);
        tokio::time::advance(Duration::from_secs(600)).await;
        rates.upkeep();
        assert_eq!(rates.wrong_keys.0.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_known_keeps_their_own_account_when_there_is_no_room_for_others() {
        let rates = rates(1, 5);
        for number in 0..10_000 {
            rates.request(numbered(number)).unwrap();
        }
        let newcomers = (10_000..20_000).filter(|number| rates.request(numbered(*number)).is_ok()).count();
        assert_eq!(newcomers, 5, "they share one account");
        for known in [0, 5_000, 9_999] {
            assert_eq!(until_refused(|| rates.request(numbered(known))).0, 4, "of five, one is used");
        }
        tokio::time::advance(Duration::from_secs(600)).await;
        // The one who is not quiet stays known, the others make room.
        rates.request(numbered(0)).unwrap();
        rates.upkeep();
        assert_eq!(until_refused(|| rates.request(numbered(0))).0, 4);
        for newcomer in [10_000, 10_001] {
            assert_eq!(until_refused(|| rates.request(numbered(newcomer))).0, 5, "there is room again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn holders_of_keys_take_no_room_from_addresses() {
        let rates = rates(1, 5);
        for key in 0..10_000 {
            rates.request(Who::Key(key)).unwrap();
        }
        for address in [1, 2] {
            assert_eq!(until_refused(|| rates.request(numbered(address))).0, 5, "each has an own account");
        }
        tokio::time::advance(Duration::from_secs(600)).await;
        rates.upkeep();
        assert_eq!(rates.requests.as_ref().map(|requests| requests.0.len()), Some(0));
    }
}
