//! Job leases: who may report a result, and what an expired lease costs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// After this many expired leases a job fails, because it may crash its workers.
pub const MAX_EXPIRIES: u32 = 5;

/// The status of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waiting to be leased.
    Pending,
    /// A worker holds the lease.
    Leased,
    /// Finished with a result.
    Completed,
    /// Failed without further leases.
    Failed,
}

/// A job's lease state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The status of the job.
    pub status: Status,
    /// The token of the newest lease; each lease has a higher token.
    pub token: i64,
    /// The earliest time of the next lease; while leased, the lease's end.
    pub until: Timestamp,
    /// Results reported so far, successes included.
    pub attempts: u32,
    /// Leases that expired without a result.
    pub expiries: u32,
}

/// Why a lease operation changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The job cannot be leased now.
    #[error("the job is not available: it is leased, finished, or not due yet")]
    Unavailable,
    /// The job was leased again since.
    #[error("the lease is stale: the job was leased again since; drop this result")]
    Stale,
    /// The job already has a result under this lease.
    #[error("the job already has its result")]
    Finished,
}

impl Lease {
    /// A job that may be leased from `due` on.
    #[must_use]
    pub fn due_at(due: Timestamp) -> Self {
        Self { status: Status::Pending, token: 0, until: due, attempts: 0, expiries: 0 }
    }

    /// Leases the job until `now + duration`.
    ///
    /// # Errors
    /// When it is leased, finished or not due.
    pub fn lease(&self, duration: Duration, now: Timestamp) -> Result<Self, Refused> {
        match self.status {
            Status::Pending if self.until <= now => Ok(Self {
                status: Status::Leased,
                token: self.token + 1,
                until: now.plus(duration),
                ..self.clone()
            }),
            Status::Pending | Status::Leased | Status::Completed | Status::Failed => {
                Err(Refused::Unavailable)
            }
        }
    }

    /// Extends a live lease.
    ///
    /// # Errors
    /// When the token is not the newest, or the job is finished.
    pub fn heartbeat(&self, token: i64, duration: Duration, now: Timestamp) -> Result<Self, Refused> {
        self.holds(token)?;
        Ok(Self { until: now.plus(duration), ..self.clone() })
    }

    /// Records a success.
    ///
    /// # Errors
    /// When the token is not the newest, or the job is finished.
    pub fn complete(&self, token: i64) -> Result<Self, Refused> {
        self.holds(token)?;
        Ok(Self { status: Status::Completed, attempts: self.attempts + 1, ..self.clone() })
    }

    /// Records a failure. With `retry_at` the job waits for another lease, otherwise it fails.
    ///
    /// # Errors
    /// When the token is not the newest, or the job is finished.
    pub fn fail(&self, token: i64, retry_at: Option<Timestamp>) -> Result<Self, Refused> {
        self.holds(token)?;
        let attempts = self.attempts + 1;
        Ok(match retry_at {
            Some(due) => Self { status: Status::Pending, until: due, attempts, ..self.clone() },
            None => Self { status: Status::Failed, attempts, ..self.clone() },
        })
    }

    /// Returns the job unfinished: due again at once, and the returned lease does not count as expired.
    ///
    /// # Errors
    /// When the token is not the newest, or the job is finished.
    pub fn give_back(&self, token: i64, now: Timestamp) -> Result<Self, Refused> {
        self.holds(token)?;
        Ok(Self { status: Status::Pending, until: now, ..self.clone() })
    }

    /// The state after an expired lease: pending again, or failed after [`MAX_EXPIRIES`] of them. `None` while the
    /// lease is
    /// valid.
    #[must_use]
    pub fn expire(&self, now: Timestamp) -> Option<Self> {
        if self.status != Status::Leased || self.until > now {
            return None;
        }
        let expiries = self.expiries + 1;
        let status = if expiries >= MAX_EXPIRIES { Status::Failed } else { Status::Pending };
        Some(Self { status, expiries, until: now, ..self.clone() })
    }

    fn holds(&self, token: i64) -> Result<(), Refused> {
        match self.status {
            _ if token != self.token => Err(Refused::Stale),
            Status::Leased => Ok(()),
            Status::Completed | Status::Failed => Err(Refused::Finished),
            Status::Pending => Err(Refused::Stale),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_job_is_leased_once_due_and_by_one_worker_only() {
        let job = Lease::due_at(at(5));
        assert_eq!(job.lease(LEASE, at(4)), Err(Refused::Unavailable));
        let leased = job.lease(LEASE, at(5)).unwrap();
        assert_eq!((leased.status, leased.token, leased.until), (Status::Leased, 1, at(15)));
        assert_eq!(leased.lease(LEASE, at(20)), Err(Refused::Unavailable));
    }

    #[test]
    fn a_result_is_applied_once_and_only_with_the_newest_token() {
        let leased = Lease::due_at(at(0)).lease(LEASE, at(0)).unwrap();
        assert_eq!(leased.complete(0), Err(Refused::Stale));
        assert_eq!(leased.complete(2), Err(Refused::Stale));
        let done = leased.complete(1).unwrap();
        assert_eq!((done.status, done.attempts), (Status::Completed, 1));
        assert_eq!(done.complete(1), Err(Refused::Finished));
        assert_eq!(done.fail(1, None), Err(Refused::Finished));
        assert_eq!(done.lease(LEASE, at(99)), Err(Refused::Unavailable));
    }

    #[test]
    fn a_failure_waits_for_its_retry_or_is_final() {
        let leased = Lease::due_at(at(0)).lease(LEASE, at(0)).unwrap();
        let waiting = leased.fail(1, Some(at(30))).unwrap();
        assert_eq!((waiting.status, waiting.until, waiting.attempts), (Status::Pending, at(30), 1));
        assert_eq!(waiting.complete(1), Err(Refused::Stale), "the lease ended with its failure");
        assert_eq!(waiting.lease(LEASE, at(29)), Err(Refused::Unavailable));
        let failed = leased.fail(1, None).unwrap();
        assert_eq!((failed.status, failed.attempts), (Status::Failed, 1));
        assert_eq!(failed.heartbeat(1, LEASE, at(1)), Err(Refused::Finished));
    }

    #[test]
    fn a_heartbeat_extends_only_the_newest_lease() {
        let leased = Lease::due_at(at(0)).lease(LEASE, at(0)).unwrap();
        assert_eq!(leased.heartbeat(1, LEASE, at(8)).unwrap().until, at(18));
        assert_eq!(leased.heartbeat(7, LEASE, at(8)), Err(Refused::Stale));
    }

    #[test]
    fn returned_lease_ends_and_does_not_count() {
        let mut job = Lease::due_at(at(0)).lease(LEASE, at(0)).unwrap().expire(at(10)).unwrap();
        for round in 2..20 {
            let leased = job.lease(LEASE, at(round * 100)).unwrap();
            assert_eq!(leased.give_back(round - 1, at(round * 100 + 3)), Err(Refused::Stale));
            job = leased.give_back(round, at(round * 100 + 3)).unwrap();
            assert_eq!((job.status, job.until), (Status::Pending, at(round * 100 + 3)));
            assert_eq!((job.token, job.attempts, job.expiries), (round, 0, 1));
            assert_eq!(job.give_back(round, at(round * 100 + 4)), Err(Refused::Stale), "the lease has ended");
        }
        let done = job.lease(LEASE, at(9000)).unwrap().complete(20).unwrap();
        assert_eq!(done.give_back(20, at(9001)), Err(Refused::Finished));
    }

    #[test]
    fn fifth_expired_lease_fails_the_job_without_an_attempt() {
        let mut job = Lease::due_at(at(0));
        for round in 1..=4 {
            let leased = job.lease(LEASE, at(round * 100)).unwrap();
            assert_eq!(leased.expire(at(round * 100 + 9)), None);
            assert!(leased.expire(at(round * 100 + 10)).is_some());
            job = leased.expire(at(round * 100 + 12)).unwrap();
            assert_eq!((job.status, job.attempts), (Status::Pending, 0));
            assert_eq!(job.until, at(round * 100 + 12), "it may be leased again from now on");
        }
        let last = job.lease(LEASE, at(900)).unwrap().expire(at(999)).unwrap();
        assert_eq!((last.status, last.expiries), (Status::Failed, 5));
        assert_eq!(job.expire(at(999)), None, "only a lease expires");
    }
}
