//! Where things about a saga are.

use backstitch::SagaId;

pub(in crate::console) fn of(saga: SagaId) -> String {
    format!("/sagas/{saga}")
}
