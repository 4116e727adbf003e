//! Statements that also run inside callers' transactions, where the `search_path` is the caller's: they name the schema.

use super::commit_statement::CommitStatements;
use super::sql;
use crate::store::SchemaName;

/// The texts for one schema.
pub(super) struct QualifiedStatements {
    pub(super) commit: CommitStatements,
    pub(super) find_claim: String,
    pub(super) publish: String,
    pub(super) find_messages: String,
}

impl QualifiedStatements {
    pub(super) fn of(schema: &SchemaName) -> Self {
        Self {
            commit: CommitStatements::of(schema),
            find_claim: schema.qualify(sql!(idempotency::find)),
            publish: schema.qualify(sql!(messages::publish)),
            find_messages: schema.qualify(sql!(messages::find)),
        }
    }
}
