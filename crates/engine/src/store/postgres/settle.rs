//! Makes sure that every decision of a batch gets its verdict: bad ones fail alone, and an answer that was lost is
//! looked up in the log.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use backstitch_kernel::saga::codec;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use uuid::Uuid;

use super::batch::judged_unsent;
use super::commit::send;
use super::fault::Fault;
use super::session::{Sessions, read};
use super::sql;
use super::values::{get, time};
use crate::store::{Commit, Error, Verdict};

/// After this long without an answer the caller is told that nobody knows.
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Writes a batch and answers in its order.
pub(super) async fn write(sessions: &Sessions, commits: &[Commit]) -> Result<Vec<Verdict>, Error> {
    let mut open = Open {
        sessions,
        commits,
        verdicts: commits.iter().map(judged_unsent).collect(),
        patience: Patience::default(),
    };
    loop {
        let wave = open.next_wave();
        if wave.is_empty() {
            return Ok(open.verdicts.into_iter().flatten().collect());
        }
        open.settle(wave).await?;
    }
}

/// A batch on its way.
struct Open<'a> {
    sessions: &'a Sessions,
    commits: &'a [Commit],
    verdicts: Vec<Option<Verdict>>,
    patience: Patience,
}

/// Decisions that are sent together.
struct Group {
    members: Vec<usize>,
    /// They were sent before and the answer was lost: what looks like a refusal may be their own success.
    in_doubt: bool,
}

impl Open<'_> {
    /// What can go into one statement: the first open decision of each saga and each key. Sorted by saga, so that no
    /// two batches wait for each other.
    fn next_wave(&self) -> Vec<usize> {
        let mut sagas = HashSet::with_capacity(self.commits.len());
        let mut keys = HashSet::new();
        let mut wave: Vec<usize> = Vec::with_capacity(self.commits.len());
        for (index, commit) in self.commits.iter().enumerate() {
            if self.verdicts[index].is_some() {
                continue;
            }
            let first_of_key =
                commit.claim.as_ref().is_none_or(|claim| keys.insert((&claim.scope, &claim.key)));
            if sagas.insert(commit.saga) && first_of_key {
                wave.push(index);
            }
        }
        wave.sort_unstable_by_key(|index| self.commits[*index].saga);
        wave
    }

    async fn settle(&mut self, wave: Vec<usize>) -> Result<(), Error> {
        let mut groups = vec![Group { members: wave, in_doubt: false }];
        while let Some(mut group) = groups.pop() {
            let commits: Vec<&Commit> = group.members.iter().map(|index| &self.commits[*index]).collect();
            match send(self.sessions, &commits).await {
                Ok(verdicts) => groups.extend(self.answered(group, verdicts).await?),
                Err(Fault::Data(why)) => groups.extend(self.isolate(group, Verdict::Refused(why)).await?),
                Err(Fault::Rejected(why)) => {
                    groups.extend(self.isolate(group, Verdict::Rejected(why)).await?);
                }
                Err(Fault::Blocked(why)) => match group.halves() {
                    Ok(halves) => groups.extend(halves),
                    Err(alone) => groups.extend(self.blocked(alone, why).await?),
                },
                Err(Fault::Undone(why)) => {
                    self.patience.pause(&why).await?;
                    groups.push(group);
                }
                Err(Fault::Lost(why)) => {
                    warn!(
                        decisions = group.members.len(),
                        why, "commit has an unknown outcome; reading the log"
                    );
                    self.patience.pause(&why).await?;
                    group.in_doubt = true;
                    group.members = self.missing_in_log(group.members).await?;
                    info!(missing = group.members.len(), "looked up a commit of unknown outcome in the log");
                    if !group.members.is_empty() {
                        groups.push(group);
                    }
                }
                Err(Fault::Hopeless(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the answers of a group, and gives back those that must be sent again.
    async fn answered(
        &mut self,
        group: Group,
        verdicts: Vec<Option<Verdict>>,
    ) -> Result<Option<Group>, Error> {
        let mut unsure = Vec::new();
        let mut again = Vec::new();
        for (index, verdict) in group.members.into_iter().zip(verdicts) {
            match verdict {
                None => again.push(index),
                Some(verdict) => {
                    if group.in_doubt && verdict != Verdict::Applied {
                        unsure.push(index);
                    }
                    self.verdicts[index] = Some(verdict);
                }
            }
        }
        // The first sending may have been on its way to the disk while the log was read.
        self.missing_in_log(unsure).await?;
        if !again.is_empty() {
            self.patience.pause("an idempotency key changes hands all the time").await?;
        }
        Ok((!again.is_empty()).then_some(Group { members: again, in_doubt: group.in_doubt }))
    }

    /// Splits a group, one of whose decisions was not written; one that is alone gets this verdict.
    async fn isolate(&mut self, group: Group, verdict: Verdict) -> Result<Vec<Group>, Error> {
        match group.halves() {
            Ok(halves) => Ok(halves.into()),
            Err(alone) => {
                self.answer(alone, verdict).await?;
                Ok(Vec::new())
            }
        }
    }

    async fn answer(&mut self, alone: Group, verdict: Verdict) -> Result<(), Error> {
        let verdicts = vec![Some(verdict); alone.members.len()];
        self.answered(alone, verdicts).await.map(|_| ())
    }

    /// A key that somebody's open transaction holds is not waited for: nothing was started, and nobody knows how long
    /// that transaction stays open. Any other decision has to wait.
    async fn blocked(&mut self, alone: Group, why: String) -> Result<Option<Group>, Error> {
        let claims = |index: &usize| self.commits[*index].claim.is_some();
        if alone.members.iter().all(claims) {
            self.answer(alone, Verdict::KeyHeld(why)).await?;
            return Ok(None);
        }
        self.patience.pause(&why).await?;
        Ok(Some(alone))
    }

    /// Marks those as applied whose first event is durable in the log as they wrote it, and returns the others.
    async fn missing_in_log(&mut self, members: Vec<usize>) -> Result<Vec<usize>, Error> {
        if members.is_empty() {
            return Ok(members);
        }
        let heads = loop {
            match self.heads(&members).await {
                Ok(heads) => break heads,
                Err(Error::Unavailable(why)) => self.patience.pause(&why).await?,
                Err(error) => return Err(error),
            }
        };
        let mut missing = Vec::new();
        for index in members {
            let commit = &self.commits[index];
            if heads.get(&commit.saga.0).is_some_and(|head| Some(head) == Head::of(commit).as_ref()) {
                self.verdicts[index] = Some(Verdict::Applied);
            } else {
                missing.push(index);
            }
        }
        Ok(missing)
    }

    async fn heads(&self, members: &[usize]) -> Result<HashMap<Uuid, Head>, Error> {
        let firsts = members.iter().filter_map(|index| {
            let commit = &self.commits[*index];
            Some((commit.saga.0, i32::try_from(commit.events.first()?.seq).ok()?))
        });
        let (sagas, seqs): (Vec<Uuid>, Vec<i32>) = firsts.unzip();
        let written = sql!(sagas::written_events);
        let rows = read!(self.sessions, |session| session.query_durably(written, &[&sagas, &seqs]))?;
        rows.iter().map(|row| Ok((get(row, "saga_id")?, Head::read(row)?))).collect()
    }
}

impl Group {
    /// Two groups of half the size; a group of one cannot be split.
    fn halves(mut self) -> Result<[Self; 2], Self> {
        if self.members.len() < 2 {
            return Err(self);
        }
        let second = self.members.split_off(self.members.len() / 2);
        let in_doubt = self.in_doubt;
        // The first half comes out first.
        Ok([Self { members: second, in_doubt }, self])
    }
}

/// What tells a decision's first event from anybody else's at the same place.
#[derive(PartialEq, Eq)]
struct Head {
    at: SystemTime,
    name: String,
    step: Option<String>,
    attempt: Option<i32>,
    data: Option<String>,
}

impl Head {
    fn of(commit: &Commit) -> Option<Self> {
        let first = commit.events.first()?;
        Some(Self {
            at: time(first.at),
            name: first.event.name().to_owned(),
            step: first.event.step().map(|step| step.as_str().to_owned()),
            attempt: first.event.attempt().and_then(|attempt| i32::try_from(attempt).ok()),
            data: codec::data(&first.event),
        })
    }

    fn read(row: &tokio_postgres::Row) -> Result<Self, Error> {
        Ok(Self {
            at: get(row, "at")?,
            name: get(row, "type")?,
            step: get(row, "step")?,
            attempt: get(row, "attempt")?,
            data: get(row, "data")?,
        })
    }
}

/// Waits longer and longer between tries, and not for ever.
#[derive(Default)]
struct Patience {
    until: Option<Instant>,
    tries: u32,
}

impl Patience {
    async fn pause(&mut self, why: &str) -> Result<(), Error> {
        let until = *self.until.get_or_insert_with(|| Instant::now() + PATIENCE);
        let pause = FIRST_PAUSE.saturating_mul(1 << self.tries.min(10)).min(LONGEST_PAUSE);
        if Instant::now() + pause > until {
            return Err(Error::Unavailable(why.to_owned()));
        }
        self.tries += 1;
        sleep(pause).await;
        Ok(())
    }
}
