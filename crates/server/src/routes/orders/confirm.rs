//! `POST /v1/orders`

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use backstitch::SagaId;
use backstitch_modules::only_object::list_of_objects;
use backstitch_modules::orders::{Amount, Item, Order};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::http::{Json, Query, idempotency_key, json};
use crate::problem::{Described, Problem};

/// What a customer confirms.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderRequest {
    /// The shop's own id; it may be confirmed more than once.
    #[schema(min_length = 1, max_length = 512, example = "o-1")]
    order_id: String,
    #[schema(min_length = 1, max_length = 512, example = "c-1")]
    customer_id: String,
    #[serde(deserialize_with = "list_of_objects")]
    #[schema(min_items = 1, max_items = 1000)]
    items: Vec<OrderItem>,
    #[schema(value_type = WrittenAmount)]
    amount: Amount,
}

/// One line of an order.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderItem {
    #[schema(min_length = 1, max_length = 512, example = "book")]
    sku: String,
    #[schema(value_type = i64, minimum = 1, maximum = 4_294_967_295_i64, example = 1)]
    quantity: u32,
}

/// A sum of money: a number of 0 or more, or the same as text. A number with more digits than a double keeps is refused;
/// text keeps every digit.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = Amount)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what `Amount` reads")]
enum WrittenAmount {
    Number(NumericAmount),
    Text(TextualAmount),
}

/// A sum of money as a number.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(minimum = 0, example = 19.9)]
#[expect(dead_code, reason = "describes what `Amount` reads")]
struct NumericAmount(f64);

/// A sum of money as text.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(pattern = r"^[0-9]+(\.[0-9]+)?$", max_length = 64, example = "19.90")]
#[expect(dead_code, reason = "describes what `Amount` reads")]
struct TextualAmount(String);

impl From<OrderRequest> for Order {
    fn from(request: OrderRequest) -> Self {
        let items = request.items.into_iter();
        Self {
            order_id: request.order_id,
            customer_id: request.customer_id,
            items: items.map(|item| Item { sku: item.sku, quantity: item.quantity }).collect(),
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
    /// Leave to watch this order without a key: `?token=` on the order and its streams.
    stream_token: String,
}

/// Accepts an order. It is on disk, together with its transaction, when this answers; the services are called afterwards.
///
/// Each confirmation is a transaction of its own, unless it repeats an `Idempotency-Key`.
#[utoipa::path(post, path = "/v1/orders", tag = "orders", request_body = OrderRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and order give the same transaction", min_length = 1, max_length = 512)),
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
    Json(request): Json<OrderRequest>,
) -> Result<Response, Problem> {
    query.finish("")?;
    let run = app.orders.confirm(&request.into(), idempotency_key(&headers)?).await?;
    let tx_id = run.id();
    let stream_token = app.gate.stream_token(tx_id);
    let confirmed = Confirmed { tx_id, status: "processing", stream_token };
    let mut response = json(StatusCode::ACCEPTED, &confirmed);
    // An id is plain text, so this cannot fail.
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/orders/{tx_id}")) {
        response.headers_mut().insert(LOCATION, place);
    }
    Ok(response)
}
