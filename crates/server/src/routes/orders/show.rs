//! `GET /v1/orders/{tx_id}`

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstitch::SagaState;
use backstitch_modules::orders::Outcome;
use serde::Serialize;

use super::super::sagas::view::SagaView;
use super::super::sagas::wait;
use crate::app::App;
use crate::auth::Leave;
use crate::http::{OrderInPath, Query, json};
use crate::problem::{Described, Problem};

/// An order and how far it is.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = Order)]
pub(crate) struct OrderView<'a> {
    /// The transaction.
    tx_id: String,
    /// What the customer would be told: `processing`, `complete`, `rolling_back`, `failed_refunded`, `failed_not_refunded`
    /// (a person decided to leave the payment as it is) or `rollback_failed`.
    outcome: &'static str,
    #[serde(flatten)]
    saga: SagaView<'a>,
}

impl<'a> OrderView<'a> {
    fn of(saga: &'a SagaState) -> Self {
        let outcome = Outcome::of(saga).as_str();
        Self { tx_id: saga.id.to_string(), outcome, saga: SagaView::of(saga) }
    }
}

/// An order with its services as steps, as it stands or at its end.
#[utoipa::path(get, path = "/v1/orders/{tx_id}", tag = "orders",
    params(
        ("tx_id" = String, Path, description = "The transaction", format = Uuid),
        ("wait" = Option<u64>, Query, description = "Answer when the order is at its end, or after so many seconds", maximum = 60),
        ("token" = Option<String>, Query, description = "The order's stream token, instead of a key"),
    ),
    responses(
        (status = 200, description = "The order", body = OrderView),
        (status = 400, description = "The id or a parameter is wrong", body = Described, content_type = "application/problem+json"),
        (status = 404, description = "There is none", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn show(
    State(app): State<App>,
    OrderInPath(id): OrderInPath,
    leave: Leave,
    mut query: Query,
) -> Result<Response, Problem> {
    let wait = wait::asked(&mut query)?;
    query.text("token");
    query.finish("wait or token")?;
    let mut saga = super::saga(&app, id).await?;
    if wait.is_some() && !saga.status.is_terminal() {
        saga = wait::at_end(&app, &leave, app.engine.find(id).await?, wait).await?;
    }
    leave.still_given()?;
    Ok(json(StatusCode::OK, &OrderView::of(&saga)))
}
