//! `POST /v1/orders`

use axum::Extension;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use backstitch::SagaId;
use backstitch_api::request;
use backstitch_api::validate::{Bounded, FilledLabel, List};
use backstitch_modules::orders::{Amount, Item, MAX_ITEMS, Order};
use serde::Serialize;

use crate::app::App;
use crate::auth::Holder;
use crate::http::{Json, Query, idempotency_key, json};
use crate::problem::{Described, Problem};

request! {
    /// What a customer confirms.
    pub(crate) struct OrderRequest as "OrderRequest" {
        /// The shop's own id; it may be confirmed more than once.
        order_id: FilledLabel,
        /// Who confirms.
        customer_id: FilledLabel,
        /// What is bought.
        items: List<OrderItem, 1, MAX_ITEMS>,
        /// What it costs.
        amount: Amount,
    }
}

request! {
    /// One line of an order.
    pub(crate) struct OrderItem as "OrderItem" example { "sku": "book", "quantity": 1 } {
        /// What.
        sku: FilledLabel,
        /// How many.
        quantity: Bounded<u32, 1, { u32::MAX as u64 }>,
    }
}

impl From<OrderRequest> for Order {
    fn from(request: OrderRequest) -> Self {
        let item = |item: OrderItem| Item { sku: item.sku.0, quantity: item.quantity.0 };
        Self {
            order_id: request.order_id.0,
            customer_id: request.customer_id.0,
            items: request.items.0.into_iter().map(item).collect(),
            amount: request.amount,
        }
    }
}

/// An order that is on disk.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Confirmed {
    /// The transaction: the order is followed by it.
    #[schema(value_type = String, format = Uuid)]
    tx_id: SagaId,
    /// `processing`: the services are called from now on.
    status: &'static str,
    /// Opens this order and its streams without a key, as `?token=`. It ends with the key that confirmed the order.
    stream_token: String,
}

/// Accepts an order. It is on disk, together with its transaction, when this answers; the services are called afterwards.
///
/// Each confirmation is a transaction of its own, unless it repeats an `Idempotency-Key`.
#[utoipa::path(post, path = "/v1/orders", tag = "orders", request_body = OrderRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and order give the same transaction", min_length = 1, max_length = 512, pattern = r"^[ -~]*[!-~][ -~]*$")),
    responses(
        (status = 202, description = "It is on disk", body = Confirmed, headers(("Location" = String, description = "The order"))),
        (status = 400, description = "The body is not JSON", body = Described, content_type = "application/problem+json"),
        (status = 409, description = "The key belongs to another order, or nobody has said where the services are", body = Described, content_type = "application/problem+json"),
        (status = 413, description = "Too large", body = Described, content_type = "application/problem+json"),
        (status = 415, description = "Not JSON", body = Described, content_type = "application/problem+json"),
        (status = 422, description = "The order has mistakes", body = Described, content_type = "application/problem+json"),
    ))]
pub(in crate::routes) async fn confirm(
    State(app): State<App>,
    query: Query,
    headers: HeaderMap,
    holder: Option<Extension<Holder>>,
    Json(request): Json<OrderRequest>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let run = app.orders.confirm(&request.into(), idempotency_key(&headers)?).await?;
    let tx_id = run.id();
    let stream_token = app.gate.stream_token(tx_id, holder.as_deref());
    let confirmed = Confirmed { tx_id, status: "processing", stream_token };
    let mut response = json(StatusCode::ACCEPTED, &confirmed);
    // An id is plain text, so this cannot fail.
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/orders/{tx_id}")) {
        response.headers_mut().insert(LOCATION, place);
    }
    Ok(response)
}
