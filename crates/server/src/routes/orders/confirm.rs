//! `POST /v1/orders`

use axum::Extension;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use backstitch::{Problem as Mistake, Problems, SagaId};
use backstitch_modules::only_object::list_of_objects;
use backstitch_modules::orders::{self, Amount, Item, Order};
use serde::{Deserialize, Deserializer, Serialize};

use super::super::text::FilledLabel;
use crate::app::App;
use crate::auth::Holder;
use crate::http::{Json, Query, idempotency_key, json, optional_whole};
use crate::problem::{Described, Problem};

/// What a customer confirms.
///
/// Every field is required. They are read as optional, so that all that are missing are reported together.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderRequest {
    /// The shop's own id; it may be confirmed more than once.
    #[schema(value_type = FilledLabel, required = true, example = "o-1")]
    order_id: Option<String>,
    #[schema(value_type = FilledLabel, required = true, example = "c-1")]
    customer_id: Option<String>,
    #[serde(default, deserialize_with = "items")]
    #[schema(value_type = Vec<OrderItem>, required = true, min_items = 1, max_items = 1000)]
    items: Option<Vec<OrderItem>>,
    #[schema(value_type = WrittenAmount, required = true)]
    amount: Option<Amount>,
}

/// One line of an order.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderItem {
    #[schema(value_type = FilledLabel, required = true, example = "book")]
    sku: Option<String>,
    #[serde(default, deserialize_with = "optional_whole")]
    #[schema(value_type = i64, required = true, minimum = 1, maximum = 4_294_967_295_i64, example = 1)]
    quantity: Option<u32>,
}

fn items<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<OrderItem>>, D::Error> {
    list_of_objects(from).map(Some)
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

/// Fields that a request lacks.
#[derive(Default)]
struct Missing(Vec<Mistake>);

impl Missing {
    /// The field's value, or the one that stands for it until the request is refused.
    fn field<T>(&mut self, place: String, value: Option<T>, placeholder: T) -> T {
        value.unwrap_or_else(|| {
            self.0.push(Mistake { place, message: "is missing".to_owned() });
            placeholder
        })
    }
}

impl OrderRequest {
    /// The order, or everything that is wrong with it.
    fn check(self) -> Result<Order, Problems> {
        let mut missing = Missing::default();
        let order_id = missing.field("order_id".to_owned(), self.order_id, String::new());
        let customer_id = missing.field("customer_id".to_owned(), self.customer_id, String::new());
        let items = missing.field("items".to_owned(), self.items, Vec::new());
        let items = items.into_iter().enumerate().map(|(position, item)| Item {
            sku: missing.field(format!("items[{position}].sku"), item.sku, String::new()),
            quantity: missing.field(format!("items[{position}].quantity"), item.quantity, 0),
        });
        let items = items.collect();
        let amount = missing.field("amount".to_owned(), self.amount, Amount::Number(0.into()));
        let order = Order { order_id, customer_id, items, amount };
        let Missing(mut found) = missing;
        let is_missing = |place: &str| found.iter().any(|it| it.place == place);
        let others = order.check().err().map(|Problems(others)| others).unwrap_or_default();
        let others: Vec<_> = others.into_iter().filter(|other| !is_missing(&other.place)).collect();
        found.extend(others);
        if found.is_empty() { Ok(order) } else { Err(Problems(found)) }
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
    let order = request.check().map_err(orders::Error::from)?;
    let run = app.orders.confirm(&order, idempotency_key(&headers)?).await?;
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
