//! A saga's events in the words of orders: one letter a state, and what the customer reads.

use backstitch::{Event, Recorded, SagaState, Status, StepError, StepId, StepStatus, Timestamp};
use serde::Serialize;

use super::service::Service;

/// Where a service stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Code {
    /// Uncommitted: the call is about to be made.
    U,
    /// It succeeded.
    S,
    /// It failed.
    F,
    /// It was rolled back.
    R,
    /// The rollback is done, as a whole.
    D,
    /// It could not be rolled back.
    Rf,
}

/// An entry of the transaction log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its number in the order's log; numbers in between belong to other events.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// The service; none for the order as a whole.
    pub service: Option<&'a StepId>,
    /// What happened.
    pub status: Code,
    /// Why it failed.
    pub error: Option<&'a StepError>,
}

/// An event as an entry of the transaction log, if it is one.
#[must_use]
pub fn entry(recorded: &Recorded) -> Option<Entry<'_>> {
    let (service, status, error) = match &recorded.event {
        Event::StepStarted { step, .. } => (Some(step), Code::U, None),
        Event::StepSucceeded { step, .. } => (Some(step), Code::S, None),
        Event::StepFailed { step, error, .. } | Event::StepTimedOut { step, error, .. } => {
            (Some(step), Code::F, Some(error))
        }
        Event::StepCompensated { step, .. } => (Some(step), Code::R, None),
        Event::StepCompensationFailed { step, error, .. } => (Some(step), Code::Rf, Some(error)),
        Event::SagaCompensated { .. } => (None, Code::D, None),
        Event::SagaStarted(_)
        | Event::SagaSucceeded
        | Event::SagaFailed { .. }
        | Event::SagaCompensating { .. }
        | Event::SagaPaused { .. }
        | Event::SagaResumed { .. }
        | Event::SagaAdopted { .. }
        | Event::StepLeased { .. }
        | Event::StepRetry { .. }
        | Event::StepCompensating { .. }
        | Event::StepResolved { .. } => return None,
    };
    Some(Entry { seq: recorded.seq, at: recorded.at, service, status, error })
}

/// How an order stands for the customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The services are being called.
    Processing,
    /// All of them have done their part.
    Complete,
    /// They are undoing it.
    RollingBack,
    /// It was undone, and there is nothing left to pay back.
    FailedRefunded,
    /// The rollback is over, and a person decided that the payment stays as it is.
    FailedNotRefunded,
    /// Not everything could be undone.
    RollbackFailed,
}

impl Outcome {
    /// The outcome of an order.
    #[must_use]
    pub fn of(order: &SagaState) -> Self {
        let keeps_the_payment = || {
            let payment = order.step(Service::Payment.name());
            payment.is_some_and(|payment| payment.status == StepStatus::Skipped)
        };
        match order.status {
            Status::Pending | Status::Running => Self::Processing,
            Status::Succeeded => Self::Complete,
            Status::Compensating => Self::RollingBack,
            Status::Compensated if keeps_the_payment() => Self::FailedNotRefunded,
            Status::Compensated => Self::FailedRefunded,
            Status::Failed => Self::RollbackFailed,
        }
    }

    /// Its name for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Complete => "complete",
            Self::RollingBack => "rolling_back",
            Self::FailedRefunded => "failed_refunded",
            Self::FailedNotRefunded => "failed_not_refunded",
            Self::RollbackFailed => "rollback_failed",
        }
    }

    /// What the customer reads about the end of a rollback. The event does not say by itself what became of the payment.
    #[must_use]
    pub fn of_rollback(self) -> &'static str {
        match self {
            Self::FailedNotRefunded => "Order Failed - Not Refunded",
            _ => REFUNDED,
        }
    }
}

const REFUNDED: &str = "Order Failed - Refunded";

/// What the customer reads about an event, if it is of any interest. About the end of a rollback,
/// [`Outcome::of_rollback`] knows better.
#[must_use]
pub fn message(event: &Event) -> Option<&'static str> {
    let service = event.step().and_then(|step| Service::named(step.as_str()));
    Some(match (event, service) {
        (Event::SagaStarted(_), _) => "Order accepted",
        (Event::StepStarted { .. }, Some(Service::Payment)) => "Processing payment",
        (Event::StepStarted { .. }, Some(Service::Inventory)) => "Reserving inventory",
        (Event::StepStarted { .. }, Some(Service::Logistics)) => "Scheduling shipping",
        (Event::StepSucceeded { .. }, Some(Service::Payment)) => "Payment processed",
        (Event::StepSucceeded { .. }, Some(Service::Inventory)) => "Inventory reserved",
        (Event::StepSucceeded { .. }, Some(Service::Logistics)) => "Shipping scheduled",
        (Event::StepFailed { .. }, Some(Service::Payment)) => "Payment failed",
        (Event::StepFailed { .. }, Some(Service::Inventory)) => "Inventory could not be reserved",
        (Event::StepFailed { .. }, Some(Service::Logistics)) => "Shipping could not be scheduled",
        (Event::StepTimedOut { .. }, Some(Service::Payment)) => "Payment did not answer in time",
        (Event::StepTimedOut { .. }, Some(Service::Inventory)) => "Inventory did not answer in time",
        (Event::StepTimedOut { .. }, Some(Service::Logistics)) => "Shipping did not answer in time",
        (Event::SagaCompensating { .. }, _) => "Order failed: rolling back",
        (Event::StepCompensated { .. }, Some(Service::Payment)) => "Payment refunded",
        (Event::StepCompensated { .. }, Some(Service::Inventory)) => "Inventory released",
        (Event::StepCompensated { .. }, Some(Service::Logistics)) => "Shipping cancelled",
        (Event::StepCompensationFailed { .. }, Some(Service::Payment)) => "Payment could not be refunded",
        (Event::StepCompensationFailed { .. }, Some(Service::Inventory)) => "Inventory could not be released",
        (Event::StepCompensationFailed { .. }, Some(Service::Logistics)) => "Shipping could not be cancelled",
        (Event::SagaSucceeded, _) => "Order Complete",
        (Event::SagaCompensated { .. }, _) => REFUNDED,
        (Event::SagaFailed { .. }, _) => "Order Failed - Support has been told",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use backstitch::Payload;

    use super::*;

    fn at(event: Event) -> Recorded {
        Recorded { seq: 7, at: Timestamp::from_micros(1), event }
    }

    #[test]
    fn each_state_has_its_letters() {
        let step = || StepId::from("payment");
        let error = || StepError::not_done("no");
        let cases = [
            (Event::StepStarted { step: step(), attempt: 1, outside: None }, Some(Code::U)),
            (Event::StepSucceeded { step: step(), attempt: 1, result: Payload::null() }, Some(Code::S)),
            (Event::StepFailed { step: step(), attempt: 1, error: error(), in_doubt: false }, Some(Code::F)),
            (Event::StepTimedOut { step: step(), attempt: 1, error: error() }, Some(Code::F)),
            (Event::StepCompensated { step: step(), attempt: 1, result: Payload::null() }, Some(Code::R)),
            (Event::StepCompensationFailed { step: step(), attempt: 6, error: error() }, Some(Code::Rf)),
            (Event::SagaCompensated { results: BTreeMap::new() }, Some(Code::D)),
            (Event::SagaSucceeded, None),
        ];
        for (event, code) in cases {
            assert_eq!(entry(&at(event)).map(|entry| entry.status), code);
        }
        assert_eq!(serde_json::to_value(Code::Rf).unwrap(), "RF");
    }

    #[test]
    fn the_customer_reads_what_was_promised() {
        let succeeded =
            |step: &str| Event::StepSucceeded { step: step.into(), attempt: 1, result: Payload::null() };
        assert_eq!(message(&succeeded("payment")), Some("Payment processed"));
        assert_eq!(message(&succeeded("inventory")), Some("Inventory reserved"));
        assert_eq!(message(&succeeded("logistics")), Some("Shipping scheduled"));
        assert_eq!(message(&Event::SagaSucceeded), Some("Order Complete"));
        assert_eq!(
            message(&Event::SagaCompensated { results: BTreeMap::new() }),
            Some("Order Failed - Refunded")
        );
    }
}
