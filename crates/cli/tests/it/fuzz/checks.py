"""A request that the description allows is not refused for its form."""

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

# Names that only the database knows, and declarations whose parts have to fit each other: no schema can say it.
BY_MEANING = {
    ("GET", "/v1/lifecycles/{machine}"): {"bad-query": {"state"}},
    ("POST", "/v1/lifecycles/{machine}/{key}/fail"): {"invalid-fields": {"error_kind"}},
    ("POST", "/v1/lifecycles/{machine}/{key}/transition"): {"invalid-fields": {"to"}},
}


@schemathesis.check
def valid_request_is_not_refused(ctx, response, case):
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code not in (400, 413, 415, 422):
        return
    problem = response.json()
    kind = problem["type"].rsplit("/", 1)[-1]
    if kind not in REFUSALS:
        return
    known = BY_MEANING.get((case.method.upper(), case.operation.path), {}).get(kind)
    places = {mistake["place"] for mistake in problem.get("problems", [])} | {problem.get("parameter")} - {None}
    if known is not None and places <= known:
        return
    raise AssertionError(f"refused as {kind}, which the description does not say: {problem['detail']} {problem.get('problems', '')}")
