-- The one guarded write of a decision. What has ended, or was decided about meanwhile, is not touched.
update lifecycles as l
set state = u.state,
    ended = u.ended,
    seq = u.seq,
    entry = u.entry,
    attempt = u.attempt,
    failures = u.failures,
    interruptions = u.interruptions,
    token = u.token,
    holder = u.holder,
    correlation_id = u.correlation_id,
    error_kind = u.error_kind,
    last_error = u.last_error,
    input = u.input,
    updated_at = u.updated_at,
    entered_at = u.entered_at,
    due_at = u.due_at,
    stuck_at = u.stuck_at,
    abandoned = u.abandoned,
    leased = u.leased
from unnest(
    $1::uuid[], $2::integer[], $3::text[], $4::boolean[], $5::integer[], $6::integer[], $7::integer[], $8::integer[],
    $9::integer[], $10::bigint[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::timestamptz[],
    $17::timestamptz[], $18::timestamptz[], $19::timestamptz[], $20::boolean[], $21::boolean[]
) as u (
    id, expected, state, ended, seq, entry, attempt, failures, interruptions, token, holder, correlation_id, error_kind,
    last_error, input, updated_at, entered_at, due_at, stuck_at, abandoned, leased
)
where l.id = u.id and l.seq = u.expected and not l.ended and not l.abandoned
returning l.id
