//! Decisions, written together.

use backstitch_kernel::idempotency::{self, Digest};
use backstitch_kernel::saga::{Recorded, Status, codec};
use backstitch_kernel::{SagaId, StepId, Timestamp};
use rusqlite::{CachedStatement, Connection, Transaction, TransactionBehavior, params};

use super::claim_rows::{ClaimRow, insert_claims};
use super::events::{EventRow, append_events};
use super::fault::{Fault, is_inserted};
use super::grouped_insert::GroupedInsert;
use super::parked::on_its_own;
use super::values::{RowReader, integer};
use super::write_guard::allow_guarded_writes;
use super::{messages, sql};
use crate::jobs::sqlite as queue;
use crate::store::{Claim, Commit, Error, NewRow, RowUpdate, RowWrite, Verdict};

/// Writes one decision inside the caller's own transaction on the engine's file: what is applied stands or falls
/// with that transaction, and what is not applied leaves nothing in it. The engine sees it once the transaction
/// is committed.
///
/// Begin the transaction as an immediate one: a deferred one that has read before it writes is refused when the
/// engine has written in between.
///
/// # Errors
/// When the database cannot be read or written; the transaction is then of no use and must be rolled back.
pub fn commit_in(transaction: &Transaction<'_>, commit: &Commit) -> Result<Verdict, Error> {
    allow_guarded_writes(transaction).map_err(Fault::from)?;
    let mut writer = Writer::on(transaction)?;
    Ok(writer.apply_on_its_own(commit)?)
}

/// Writes a batch as one transaction.
pub(super) fn write<'c>(connection: &'c Connection, batch: &'c [Commit]) -> Result<Vec<Verdict>, Fault> {
    match write_each(connection, batch, Writer::apply) {
        // Once more with a savepoint around each. It is too dear to have one around those that do no harm.
        Err(fault) if fault.is_about_an_item() => write_each(connection, batch, Writer::apply_on_its_own),
        written => written,
    }
}

fn write_each<'c>(
    connection: &'c Connection,
    batch: &'c [Commit],
    apply: impl Fn(&mut Writer<'c>, &'c Commit) -> Result<Verdict, Fault>,
) -> Result<Vec<Verdict>, Fault> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let mut writer = Writer::on(connection)?;
    let verdicts = batch.iter().map(|commit| apply(&mut writer, commit));
    let verdicts = verdicts.collect::<Result<_, _>>()?;
    writer.append_pending()?;
    transaction.commit()?;
    Ok(verdicts)
}

/// Whether a decision may be written, or what stands in its way.
type Judged<T> = Result<Result<T, Verdict>, Fault>;

/// A connection inside a transaction, with the statements that every batch needs.
struct Writer<'c> {
    connection: &'c Connection,
    guard: CachedStatement<'c>,
    insert: CachedStatement<'c>,
    touch: CachedStatement<'c>,
    let_go: CachedStatement<'c>,
    /// Events of the decisions applied so far that are not in the log yet: many are appended by one statement.
    pending: Vec<(SagaId, &'c Recorded)>,
}

impl<'c> Writer<'c> {
    fn on(connection: &'c Connection) -> Result<Self, Fault> {
        Ok(Self {
            connection,
            guard: connection.prepare_cached(sql!(sagas::guard))?,
            insert: connection.prepare_cached(sql!(sagas::insert))?,
            touch: connection.prepare_cached(sql!(sagas::touch))?,
            let_go: connection.prepare_cached(sql!(sagas::leave_owner))?,
            pending: Vec::with_capacity(GroupedInsert::LARGEST),
        })
    }

    /// Applies a decision; one that the database cannot hold leaves nothing behind and harms no other.
    fn apply_on_its_own(&mut self, commit: &'c Commit) -> Result<Verdict, Fault> {
        let applied = on_its_own(self.connection, || {
            let verdict = self.apply(commit)?;
            self.append_pending()?;
            Ok(verdict)
        })?;
        // Of a decision that was rejected.
        self.pending.clear();
        Ok(applied.unwrap_or_else(|fault| {
            let is_row = fault.blames_the_row();
            let why = Error::from(fault).to_string();
            if is_row { Verdict::Rejected(why) } else { Verdict::Refused(why) }
        }))
    }

    /// All that can say no comes before all that is written, so a decision that loses leaves nothing behind.
    fn apply(&mut self, commit: &'c Commit) -> Result<Verdict, Fault> {
        let Some(first) = commit.events.first() else {
            return Ok(Verdict::Fenced);
        };
        if let Some(claim) = &commit.claim
            && let Some(lost) = self.judge(claim)?
        {
            return Ok(lost);
        }
        let passed = match &commit.row {
            Some(RowWrite::Insert(row)) => self.insert_first(commit.saga, first, row)?,
            Some(RowWrite::Update(update)) => self.update(commit.saga, first, update)?,
            None => self.check(commit.saga, first, None)?,
        };
        if let Err(verdict) = passed {
            return Ok(verdict);
        }
        self.pending.extend(commit.events.iter().map(|recorded| (commit.saga, recorded)));
        self.write_beside(commit, first.at)?;
        if self.pending.len() >= GroupedInsert::LARGEST {
            self.append_pending()?;
        }
        Ok(Verdict::Applied)
    }

    /// Appends the events of all decisions applied so far.
    fn append_pending(&mut self) -> Result<(), Fault> {
        let rows: Vec<_> = self.pending.iter().map(|(saga, recorded)| event_row(saga, recorded)).collect();
        append_events(self.connection, &rows)?;
        self.pending.clear();
        Ok(())
    }

    /// What the ledger says about this key, if it says anything.
    fn judge(&self, claim: &Claim) -> Result<Option<Verdict>, Fault> {
        let mut find = self.connection.prepare_cached(sql!(idempotency::find))?;
        let mut rows = find.query(params![claim.scope, claim.key])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let row = RowReader::of("idempotency_ledger", &claim.key, row);
        let digest = Digest(row.bytes("digest")?);
        Ok(match idempotency::judge(Some(&digest), &claim.digest) {
            idempotency::Verdict::Fresh => None,
            idempotency::Verdict::Replay => Some(Verdict::Replay(row.saga("saga_id")?)),
            idempotency::Verdict::Conflict => {
                Some(Verdict::Conflict { saga: row.saga("saga_id")?, digest, at: row.time("at")? })
            }
        })
    }

    /// The fence of a saga that exists, and what its row says from now on.
    fn update(&mut self, saga: SagaId, first: &Recorded, update: &RowUpdate) -> Judged<()> {
        self.append_pending_of(saga)?;
        let id = saga.0.as_bytes();
        let status = update.status.as_str();
        let failed_step = update.failed_step.as_ref().map(StepId::as_str);
        let wake_at = update.wake_at.map(Timestamp::as_micros);
        let updated_at = update.updated_at.as_micros();
        // Most decisions need one statement that checks and writes. Where it finds no row, the look says why.
        let usual = match update.owner {
            Some(_) if !update.status.is_terminal() => Some(&mut self.touch),
            Some(_) => None,
            None => Some(&mut self.let_go),
        };
        if let Some(usual) = usual {
            let written = usual.execute(params![
                id,
                status,
                update.paused,
                failed_step,
                update.owner,
                wake_at,
                updated_at,
                update.inbox_seen.map(integer),
                integer(first.seq) - 1,
            ])?;
            if written == 1 {
                return Ok(Ok(()));
            }
        }
        if let Err(verdict) = self.check(saga, first, Some(update))? {
            return Ok(Err(verdict));
        }
        self.connection.prepare_cached(sql!(sagas::update))?.execute(params![
            id,
            status,
            update.paused,
            failed_step,
            update.owner,
            wake_at,
            updated_at,
        ])?;
        Ok(Ok(()))
    }

    /// The fence of a saga that exists: the log must end right before the first new event.
    fn check(&mut self, saga: SagaId, first: &Recorded, update: Option<&RowUpdate>) -> Judged<()> {
        self.append_pending_of(saga)?;
        let mut rows = self.guard.query([saga.0.as_bytes()])?;
        let Some(row) = rows.next()? else {
            return Ok(Err(Verdict::Fenced));
        };
        let row = RowReader::of("sagas", &saga, row);
        let status = row.status()?;
        let reopens =
            status == Status::Failed && update.is_some_and(|update| update.status == Status::Compensating);
        let head: u64 = row.count("seq")?;
        if status.is_terminal() && !reopens || first.seq != head + 1 {
            return Ok(Err(Verdict::Fenced));
        }
        let newest: u64 = row.count("inbox_seq")?;
        let seen = update.and_then(|update| update.inbox_seen);
        if seen.is_some_and(|seen| seen != newest) {
            return Ok(Err(Verdict::InboxChanged));
        }
        Ok(Ok(()))
    }

    /// The log of this saga is read next.
    fn append_pending_of(&mut self, saga: SagaId) -> Result<(), Fault> {
        if self.pending.iter().any(|(other, _)| *other == saga) {
            self.append_pending()?;
        }
        Ok(())
    }

    /// The fence of a saga that is new: its row must not be there yet.
    fn insert_first(&mut self, saga: SagaId, first: &Recorded, row: &NewRow) -> Judged<()> {
        if first.seq != 1 {
            return Ok(Err(Verdict::Fenced));
        }
        let inserted = self.insert.execute(params![
            saga.0.as_bytes(),
            row.definition,
            row.version,
            row.status.as_str(),
            row.owner,
            row.wake_at.map(Timestamp::as_micros),
            row.failed_step.as_ref().map(StepId::as_str),
            row.correlation_id,
            row.created_at.as_micros(),
        ]);
        let exists = || self.guard.exists([saga.0.as_bytes()]);
        if !is_inserted(inserted, exists)? {
            return Ok(Err(Verdict::Fenced));
        }
        for (name, value) in &row.attributes {
            let mut insert = self.connection.prepare_cached(sql!(sagas::insert_attribute))?;
            insert.execute(params![name, value, saga.0.as_bytes()])?;
        }
        Ok(Ok(()))
    }

    /// What a decision changes outside the saga's own row and log.
    fn write_beside(&self, commit: &Commit, at: Timestamp) -> Result<(), Fault> {
        let id = commit.saga.0.as_bytes();
        if let Some(through) = commit.consume_inbox_through {
            self.connection.prepare_cached(sql!(inbox::consume))?.execute(params![id, integer(through)])?;
        }
        if let Some(claim) = &commit.claim {
            let claim = ClaimRow {
                scope: (&*claim.scope).into(),
                key: &claim.key,
                digest: &claim.digest,
                saga: Some(commit.saga),
                at,
            };
            insert_claims(self.connection, &[claim])?;
        }
        for subject in &commit.withdrawn_jobs {
            queue::withdraw_unleased(self.connection, commit.saga, subject, None)?;
        }
        for job in &commit.jobs {
            let enqueued = queue::enqueue_one(self.connection, commit.saga, job, at).map(|()| 1);
            // An active job stands for a repeated one.
            is_inserted(enqueued, || queue::has_active_subject(self.connection, commit.saga, &job.subject))?;
        }
        for row in &commit.rows {
            self.connection.prepare_cached(row.kind.sqlite)?.execute(params![
                id,
                at.as_micros(),
                row.body.as_str()
            ])?;
        }
        for message in &commit.messages {
            messages::insert(self.connection, message, None, false, at)?;
        }
        Ok(())
    }
}

/// An event of a saga as its row.
pub(super) fn event_row<'e>(saga: &'e SagaId, recorded: &'e Recorded) -> EventRow<'e> {
    let event = &recorded.event;
    EventRow {
        saga_id: saga.0.as_bytes(),
        seq: recorded.seq,
        at: recorded.at.as_micros(),
        name: event.name(),
        step: event.step().map(StepId::as_str),
        attempt: event.attempt(),
        data: codec::data(event),
    }
}
