"""A request that the description allows is not refused for its form."""

import re

import schemathesis

# What is wrong with a request itself, whatever is in the database.
REFUSALS = {
    "bad-header",
    "bad-id",
    "bad-json",
    "bad-query",
    "invalid-fields",
    "json-too-deep",
    "too-large",
    "unsupported-media-type",
}

# What no schema can say, by operation: names that only the database knows, fields that have to fit each other, and addresses
# that the operator has not opened.
BY_MEANING = {
    # The key is in the body or in a header, and neither it nor `expires_at` is an order.
    ("POST", "/do/order"): r"idempotency_key: ",
    ("GET", "/v1/lifecycles/{machine}"): r"state: ",
    ("GET", "/v1/sagas/{id}/events"): r"the newest event is number",
    ("GET", "/v1/sagas/{id}/ws"): r"the newest event is number|this is a WebSocket",
    ("GET", "/v1/orders/{tx_id}/events"): r"the newest event is number",
    ("GET", "/v1/orders/{tx_id}/ws"): r"the newest event is number|this is a WebSocket",
    ("GET", "/v1/lifecycles/{machine}/{key}/events"): r"the newest event is number",
    ("PATCH", "/v1/webhooks/subscriptions/{id}"): r"shorter than base_delay|url: |headers",
    ("POST", "/v1/webhooks/subscriptions"): r"shorter than base_delay|url: |headers",
    ("POST", "/v1/webhooks/subscriptions/{id}/replay"): r"until: is not after since",
    ("POST", "/v1/lifecycles/{machine}/{key}/fail"): r"error_kind: ",
    ("POST", "/v1/lifecycles/{machine}/{key}/transition"): r"to: ",
    ("PUT", "/v1/admin/config/services"): r"is longer than max_delay|is missing|changes nothing",
    ("PUT", "/v1/definitions/{name}"): r"",
    ("PUT", "/v1/lifecycles/{machine}"): r"",
}


@schemathesis.check
def valid_request_is_not_refused(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code not in (400, 413, 415, 422):
        return
    problem = response.json()
    kind = problem["type"].rsplit("/", 1)[-1]
    if kind not in REFUSALS:
        return
    mistakes = [f"{mistake['place']}: {mistake['message']}" for mistake in problem.get("problems", [])]
    mistakes = mistakes or [f"{problem.get('parameter', '')}: {problem['detail']}"]
    meant = BY_MEANING.get((case.method.upper(), case.operation.path))
    if meant is not None and all(re.search(meant, mistake) for mistake in mistakes):
        return
    raise AssertionError(f"refused as {kind}, which the description does not say: {'; '.join(mistakes)}")
