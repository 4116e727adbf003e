//! Orders, and how they are worked off.

pub(super) mod confirm;
pub(super) mod log;
pub(super) mod services;
mod settings;
pub(super) mod show;
pub(super) mod streams;
pub(super) mod timeouts;

use backstitch::{Error, Run, SagaId, SagaState};
use backstitch_modules::orders;

use crate::app::App;
use crate::problem::{Kind, Problem};

fn unknown(order: SagaId) -> Problem {
    Problem::new(Kind::OrderNotFound, format!("there is no order with the transaction id {order}"))
}

/// A saga of orders without an order would be a log of nothing: it begins with the order, or not at all.
pub(super) fn refuse_without_order(definition: &str) -> Result<(), Problem> {
    if definition == orders::DEFINITION {
        let detail = format!("`{definition}` begins with an order: confirm one with POST /v1/orders");
        return Err(Problem::new(Kind::NameTaken, detail));
    }
    Ok(())
}

/// The saga of an order; other sagas are none.
async fn saga(app: &App, order: SagaId) -> Result<SagaState, Problem> {
    let saga = app.engine.load(order).await?.filter(|saga| saga.definition == orders::DEFINITION);
    saga.ok_or_else(|| unknown(order))
}

/// An order to follow; other sagas are none.
async fn followed(app: &App, order: SagaId) -> Result<Run, Problem> {
    match app.engine.find(order).await {
        Ok(run) if run.definition() == orders::DEFINITION => Ok(run),
        Ok(_) | Err(Error::NotFound(_)) => Err(unknown(order)),
        Err(error) => Err(error.into()),
    }
}

impl From<orders::Error> for Problem {
    fn from(error: orders::Error) -> Self {
        match error {
            orders::Error::NotConfigured => Self::new(Kind::OrdersNotConfigured, error.to_string()),
            orders::Error::NothingStaged(_) => Self::new(Kind::NothingStaged, error.to_string()),
            orders::Error::AnotherStaged { ref revision, .. } => {
                Self::new(Kind::Raced, error.to_string()).with("revision", revision)
            }
            orders::Error::Invalid(problems) => {
                Self::mistakes(problems, "the body has mistakes: correct them all")
            }
            orders::Error::Engine(error) => error.into(),
            orders::Error::Unreadable(_) => {
                tracing::error!(%error, "orders cannot be read or written");
                Self::internal()
            }
        }
    }
}
