//! Inserts into `idempotency_ledger`.

use std::borrow::Cow;
use std::sync::LazyLock;

use backstitch_kernel::idempotency::Digest;
use backstitch_kernel::{SagaId, Timestamp};
use rusqlite::Connection;

use super::grouped_insert::GroupedInsert;

static INSERT: LazyLock<GroupedInsert> = LazyLock::new(|| {
    GroupedInsert::new("insert or fail into idempotency_ledger (scope, key, digest, saga_id, at)", 5)
});

/// A key that is used for the first time.
pub(super) struct ClaimRow<'k> {
    pub(super) scope: Cow<'k, str>,
    pub(super) key: &'k str,
    /// Of the request that it stands for.
    pub(super) digest: &'k Digest,
    /// The saga that it started.
    pub(super) saga: Option<SagaId>,
    pub(super) at: Timestamp,
}

pub(super) fn insert_claims(connection: &Connection, claims: &[ClaimRow<'_>]) -> rusqlite::Result<()> {
    INSERT.insert(connection, claims, |claim, values| {
        values.bind(&*claim.scope)?;
        values.bind(claim.key)?;
        values.bind(claim.digest.0)?;
        values.bind(claim.saga.as_ref().map(|saga| saga.0.as_bytes()))?;
        values.bind(claim.at.as_micros())
    })
}
