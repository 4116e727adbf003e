//! Where things about a saga are.

use backstitch::SagaId;

pub(super) fn of(saga: SagaId) -> String {
    format!("/sagas/{saga}")
}
