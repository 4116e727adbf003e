//! Whether decisions can be written, found out without leaving any behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstitch_kernel::saga::event::Started;
use backstitch_kernel::saga::{Event, Recorded, Status};
use backstitch_kernel::{Payload, SagaId, Timestamp};
use deadpool_postgres::Object;
use tokio::time::timeout;
use uuid::Uuid;

use super::commit::{ANSWER_WITHIN, commit_on};
use super::fault;
use super::qualified::QualifiedStatements;
use super::session::Sessions;
use crate::store::nodes::Epoch;
use crate::store::{Commit, Error, NewRow, RowWrite, Verdict};

/// Starts a saga like any other and takes it back: a node's own row can be written where no saga's can.
pub(super) async fn write_in_vain(sessions: &Sessions, epoch: Epoch) -> Result<(), Error> {
    let start = start(epoch);
    let mut client = sessions.to_commit().await.map_err(|why| fault::no_connection(&why))?;
    let Ok(tried) = timeout(ANSWER_WITHIN, taken_back(&mut client, sessions.qualified(), &start)).await
    else {
        // Whatever it still does, nobody else is to wait for it.
        drop(Object::take(client));
        return Err(Error::Unavailable(format!("no answer within {ANSWER_WITHIN:?} to a trial")));
    };
    match tried? {
        Verdict::Applied => Ok(()),
        verdict => Err(Error::Refused(format!("a decision that nobody stands in the way of: {verdict:?}"))),
    }
}

async fn taken_back(
    client: &mut Object,
    statements: &QualifiedStatements,
    commit: &Commit,
) -> Result<Verdict, Error> {
    let told = |why: tokio_postgres::Error| fault::error(&why);
    let transaction = client.build_transaction().start().await.map_err(told)?;
    let verdict = commit_on(&transaction, statements, commit).await?;
    transaction.rollback().await.map_err(told)?;
    Ok(verdict)
}

fn start(epoch: Epoch) -> Commit {
    let (name, at) = ("backstitch", Timestamp::default());
    let started = Started {
        definition: name.to_owned(),
        version: 1,
        input: Payload::null(),
        correlation_id: None,
        deadline: None,
        attributes: BTreeMap::new(),
    };
    let row = NewRow {
        definition: name.into(),
        version: 1,
        status: Status::Running,
        owner: Some(epoch),
        wake_at: None,
        failed_step: None,
        correlation_id: None,
        attributes: BTreeMap::new(),
        created_at: at,
    };
    Commit {
        // No other node tries the same one.
        saga: SagaId(Uuid::from_u128(epoch.unsigned_abs().into())),
        events: vec![Recorded { seq: 1, at, event: Event::SagaStarted(Arc::new(started)) }],
        row: Some(RowWrite::Insert(row)),
        consume_inbox_through: None,
        jobs: Vec::new(),
        withdrawn_jobs: Vec::new(),
        messages: Vec::new(),
        rows: Vec::new(),
        claim: None,
    }
}
