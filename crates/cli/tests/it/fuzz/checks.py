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

# What no schema can say of a duration: that its parts together are too long.
SUMS = [r"is longer than 366 days", r"waits longer than 366 days"]

# What no schema can say of a declaration.
DECLARED = [
    *SUMS,
    # The address and the document have to say the same name.
    r"^name: .*but the address says",
    # JSON Schema counts characters.
    r"is \d+ bytes long; the limit is 128$",
    r"is longer than 512 bytes$",
    r"is larger than \d+ bytes$",
    # Two waits have to fit each other.
    r"is longer than max_delay$",
    # Two names of headers that differ in their case.
    r"is given twice",
    # `xn--` is followed by Punycode.
    r"url: .*invalid international domain name",
]
# Names of steps that refer to each other.
STEPS = [
    r"id: .*is already the id of",
    r"depends_on\[\d+\]: there is no step",
    r"depends_on\[\d+\]: .*depends on itself$",
    r"^steps: depend on each other in a circle",
]
# Names of states and of kinds of errors that refer to each other.
STATES = [
    r"is no state: add it",
    r"is terminal",
    r"is a pause state: begin",
    r"is no pause state: add it",
    r"a start would wait again in",
    r"waits for a start, and nothing is done there",
    r"is no error kind: add it",
    r"nothing leads from .* to ",
    r"leads to `failed`, and .* cannot fail",
    r"nothing leads to ",
    r"leads to no terminal state",
    r"^actions: go round in a circle",
]

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
    ("PUT", "/v1/admin/config/services"): "|".join(
        [r"is longer than max_delay|is missing|changes nothing|invalid international domain name", *SUMS]
    ),
    ("PUT", "/v1/definitions/{name}"): "|".join(DECLARED + STEPS),
    ("PUT", "/v1/lifecycles/{machine}"): "|".join(DECLARED + STATES),
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
    if meant is not None and all(re.search(meant, mistake, re.DOTALL) for mistake in mistakes):
        return
    raise AssertionError(f"refused as {kind}, which the description does not say: {'; '.join(mistakes)}")
