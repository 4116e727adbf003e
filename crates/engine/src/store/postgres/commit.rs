//! One statement for a batch of decisions, and what its answer means.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use backstitch_kernel::idempotency::{self, Digest};
use backstitch_kernel::{SagaId, Timestamp};
use deadpool_postgres::{Object, PoolError};
use futures::future::try_join;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{GenericClient, Row, Statement, Transaction};
use uuid::Uuid;

use super::batch::{Batch, judged_unsent};
use super::commit_statement::CommitStatement;
use super::fault::{self, Fault};
use super::qualified::QualifiedStatements;
use super::session::Sessions;
use super::values::{time, timestamp};
use super::{PostgresStore, durability};
use crate::store::product::RowKind;
use crate::store::{Claim, Commit, Corrupt, Error, Verdict};

/// More than the server's own limit for a committer's statement, so that it is the server who gives up first.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// The server takes messages of up to a gigabyte.
const MAX_BYTES: usize = 256 << 20;

impl PostgresStore {
    /// Writes one decision inside the caller's own transaction: what is applied stands or falls with it, and what is not
    /// applied leaves nothing behind. The caller's `search_path` does not matter.
    ///
    /// The engine finds the saga once the transaction is committed, at the latest when its next look for due work comes.
    ///
    /// # Errors
    /// When the database cannot be read or written. As after any failed statement, `PostgreSQL` then refuses all but a
    /// rollback.
    pub async fn commit_in(&self, transaction: &Transaction<'_>, commit: &Commit) -> Result<Verdict, Error> {
        commit_on(transaction, self.sessions.qualified(), commit).await
    }
}

/// Writes one decision inside a transaction.
pub(super) async fn commit_on(
    transaction: &Transaction<'_>,
    statements: &QualifiedStatements,
    commit: &Commit,
) -> Result<Verdict, Error> {
    if let Some(verdict) = judged_unsent(commit) {
        return Ok(verdict);
    }
    let told = |why: tokio_postgres::Error| fault::error(&why);
    let batch = Batch::of(&[commit]);
    let CommitStatement { sql, parameters } = &*statements.commit.for_shape(batch.shape());
    let statement = transaction.prepare(sql).await.map_err(told)?;
    let rows = transaction.query(&statement, &batch.parameters(parameters)).await.map_err(told)?;
    let find_claim = transaction.prepare(&statements.find_claim).await.map_err(told)?;
    let verdicts = verdicts(transaction, &find_claim, &[commit], &rows).await.map_err(told)?;
    write_rows(transaction, &[commit], &verdicts).await.map_err(told)?;
    let open = || Error::Unavailable("the idempotency key was given up a moment ago: try again".to_owned());
    verdicts.into_iter().next().flatten().ok_or_else(open)
}

/// Writes decisions that are sorted by saga, no saga and no key twice. A verdict that is missing asks for another
/// try.
pub(super) async fn send(sessions: &Sessions, commits: &[&Commit]) -> Result<Vec<Option<Verdict>>, Fault> {
    let batch = Batch::of(commits);
    if batch.bytes() > MAX_BYTES {
        return Err(Fault::Data(format!("{} bytes are too many for one transaction", batch.bytes())));
    }
    let mut client = sessions.to_commit().await.map_err(|why| unsent(&why))?;
    let QualifiedStatements { commit, find_claim, .. } = sessions.qualified();
    let CommitStatement { sql, parameters } = &*commit.for_shape(batch.shape());
    let parameters = batch.parameters(parameters);
    let prepared = try_join(client.prepare_cached(sql), client.prepare_cached(find_claim));
    let Ok(prepared) = timeout(ANSWER_WITHIN, prepared).await else {
        drop(Object::take(client));
        return Err(Fault::Undone("no answer in time".to_owned()));
    };
    let (statement, find_claim) = prepared.map_err(|why| not_prepared(&why))?;
    let judged = async {
        if commits.iter().any(|commit| !commit.rows.is_empty()) {
            return send_with_rows(&mut client, &statement, &find_claim, commits, &parameters).await;
        }
        let rows = client.query(&statement, &parameters).await.map_err(|why| Fault::of(&why))?;
        let verdicts = verdicts(&**client, &find_claim, commits, &rows).await;
        // The batch itself is on disk by now.
        verdicts.map_err(|why| Fault::Lost(fault::error(&why).to_string()))
    };
    let judged = timeout(ANSWER_WITHIN, judged).await;
    let judged = judged.unwrap_or_else(|_| Err(Fault::Lost("no answer in time".to_owned())));
    // A connection that lost an answer is not used again.
    if matches!(judged, Err(Fault::Lost(_))) {
        drop(Object::take(client));
    }
    judged
}

/// The same with rows of products, which need a second statement.
async fn send_with_rows(
    client: &mut Object,
    statement: &Statement,
    find_claim: &Statement,
    commits: &[&Commit],
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Option<Verdict>>, Fault> {
    let judged = |why: tokio_postgres::Error| Fault::of(&why);
    let transaction = client.build_transaction().start().await.map_err(judged)?;
    let rows = transaction.query(statement, parameters).await.map_err(judged)?;
    let verdicts = verdicts(&*transaction, find_claim, commits, &rows).await.map_err(judged)?;
    write_rows(&*transaction, commits, &verdicts).await.map_err(judged)?;
    transaction.commit().await.map_err(judged)?;
    Ok(verdicts)
}

/// Writes the rows of those that were applied, kind by kind.
async fn write_rows(
    client: &impl GenericClient,
    commits: &[&Commit],
    verdicts: &[Option<Verdict>],
) -> Result<(), tokio_postgres::Error> {
    let mut kinds: Vec<(&'static RowKind, Rows<'_>)> = Vec::new();
    let applied = commits.iter().zip(verdicts).filter(|(_, verdict)| **verdict == Some(Verdict::Applied));
    for (commit, _) in applied {
        for row in &commit.rows {
            let known = kinds.iter().position(|(kind, _)| *kind == row.kind);
            let place = known.unwrap_or_else(|| {
                kinds.push((row.kind, Rows::default()));
                kinds.len() - 1
            });
            let rows = &mut kinds[place].1;
            rows.saga.push(commit.saga.0);
            rows.at.push(time(commit.events.first().map_or_else(Timestamp::default, |event| event.at)));
            rows.body.push(row.body.as_str());
        }
    }
    for (kind, rows) in kinds {
        client.execute(kind.postgres, &[&rows.saga, &rows.at, &rows.body]).await?;
    }
    Ok(())
}

/// Rows of one kind.
#[derive(Default)]
struct Rows<'a> {
    saga: Vec<Uuid>,
    at: Vec<SystemTime>,
    body: Vec<&'a str>,
}

fn unsent(error: &PoolError) -> Fault {
    match fault::no_connection(error) {
        Error::Unavailable(why) => Fault::Undone(why),
        other => Fault::Hopeless(other),
    }
}

fn not_prepared(error: &tokio_postgres::Error) -> Fault {
    match fault::error(error) {
        Error::Unavailable(why) => Fault::Undone(why),
        other => Fault::Hopeless(other),
    }
}

/// The answer names those that did not pass, and why.
async fn verdicts(
    client: &impl GenericClient,
    find_claim: &Statement,
    commits: &[&Commit],
    rows: &[Row],
) -> Result<Vec<Option<Verdict>>, tokio_postgres::Error> {
    if rows.is_empty() {
        return Ok(vec![Some(Verdict::Applied); commits.len()]);
    }
    let mut stopped = HashMap::with_capacity(rows.len());
    for row in rows {
        let (fenced, mail_waiting): (bool, bool) = (row.try_get("fenced")?, row.try_get("mail_waiting")?);
        stopped.insert(row.try_get::<_, Uuid>("saga_id")?, (fenced, mail_waiting));
    }
    let mut verdicts = Vec::with_capacity(commits.len());
    let mut repeats = false;
    for commit in commits {
        let Some((fenced, mail_waiting)) = stopped.get(&commit.saga.0) else {
            verdicts.push(Some(Verdict::Applied));
            continue;
        };
        let used = match &commit.claim {
            Some(claim) => used(client, find_claim, claim).await?,
            None => None,
        };
        repeats |= used.is_some();
        verdicts.push(match used {
            Some(verdict) => Some(verdict),
            None if *fenced => Some(Verdict::Fenced),
            None if *mail_waiting => Some(Verdict::InboxChanged),
            // Without a key, only somebody who was quicker can have stopped it. With one, somebody had taken the key
            // and gave it up.
            None => commit.claim.is_none().then_some(Verdict::Fenced),
        });
    }
    if repeats {
        // The first request with this key may have an unknown outcome.
        durability::confirm(client).await?;
    }
    Ok(verdicts)
}

/// What a key stands for that somebody had before; nothing when nobody has it.
async fn used(
    client: &impl GenericClient,
    find_claim: &Statement,
    claim: &Claim,
) -> Result<Option<Verdict>, tokio_postgres::Error> {
    let row = client.query_opt(find_claim, &[&claim.scope, &claim.key]).await?;
    // A row that cannot be read is about this decision alone.
    Ok(row.map(|row| judged(&row, claim).unwrap_or_else(|corrupt| Verdict::Refused(corrupt.to_string()))))
}

fn judged(row: &Row, claim: &Claim) -> Result<Verdict, Corrupt> {
    let corrupt =
        |column, why: String| Corrupt { table: "idempotency_ledger", column, id: claim.key.clone(), why };
    let saga = row.try_get("saga_id").map_err(|why| corrupt("saga_id", fault::told(&why)))?;
    let digest: &[u8] = row.try_get("digest").map_err(|why| corrupt("digest", fault::told(&why)))?;
    let wrong_length = |_| corrupt("digest", format!("{} bytes are no digest", digest.len()));
    let digest = Digest(digest.try_into().map_err(wrong_length)?);
    let at = row.try_get("at").map_err(|why| corrupt("at", fault::told(&why)))?;
    Ok(match idempotency::judge(Some(&digest), &claim.digest) {
        idempotency::Verdict::Fresh | idempotency::Verdict::Replay => Verdict::Replay(SagaId(saga)),
        idempotency::Verdict::Conflict => Verdict::Conflict { saga: SagaId(saga), digest, at: timestamp(at) },
    })
}
