//! The scenes with their expected results.

mod completes;
mod killed;
mod provisions;
mod refund_fails;
mod refused;
mod reordered;
mod times_out;

use super::findings::Findings;
use super::stage::Stage;
use crate::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    Completes,
    Refused,
    TimesOut,
    RefundFails,
    Reordered,
    Killed,
    Provisions,
}

impl Scene {
    pub(super) const ALL: [Self; 7] = [
        Self::Completes,
        Self::Refused,
        Self::TimesOut,
        Self::RefundFails,
        Self::Reordered,
        Self::Killed,
        Self::Provisions,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Completes => "An order completes",
            Self::Refused => "Inventory refuses, the payment is refunded",
            Self::TimesOut => "Logistics does not answer in time, all three are rolled back",
            Self::RefundFails => "The refund keeps failing, an operator is alerted and resolves it",
            Self::Reordered => "The services change places between two orders",
            Self::Killed => "The server is killed in the middle of an order and continues",
            Self::Provisions => "A site waits for its link and goes live, another fails and stays so",
        }
    }

    pub(super) async fn play(self, stage: &mut Stage) -> Result<Findings, Failure> {
        match self {
            Self::Completes => completes::play(stage).await,
            Self::Refused => refused::play(stage).await,
            Self::TimesOut => times_out::play(stage).await,
            Self::RefundFails => refund_fails::play(stage).await,
            Self::Reordered => reordered::play(stage).await,
            Self::Killed => killed::play(stage).await,
            Self::Provisions => provisions::play(stage).await,
        }
    }
}
