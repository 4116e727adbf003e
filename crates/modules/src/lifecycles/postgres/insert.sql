-- What begins. A key that somebody else has begun meanwhile is left out, and the batch is decided again.
insert into lifecycles (
    id, machine, key, version, created_at, state, ended, seq, entry, attempt, failures, interruptions, token, holder,
    correlation_id, error_kind, last_error, input, updated_at, entered_at, due_at, stuck_at, abandoned, leased
)
select
    n.id, n.machine, n.key, n.version, n.created_at, n.state, n.ended, n.seq, n.entry, n.attempt, n.failures,
    n.interruptions, n.token, n.holder, n.correlation_id, n.error_kind, n.last_error, n.input, n.updated_at,
    n.entered_at, n.due_at, n.stuck_at, n.abandoned, n.leased
from unnest(
    $1::uuid[], $2::text[], $3::boolean[], $4::integer[], $5::integer[], $6::integer[], $7::integer[], $8::integer[],
    $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::timestamptz[],
    $16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::boolean[], $20::boolean[], $21::text[],
    $22::text[], $23::integer[], $24::timestamptz[]
) with ordinality as n (
    id, state, ended, seq, entry, attempt, failures, interruptions, token, holder, correlation_id, error_kind,
    last_error, input, updated_at, entered_at, due_at, stuck_at, abandoned, leased, machine, key, version, created_at, place
)
order by n.place
on conflict (machine, key) do nothing
returning id
