-- Those that are removed now. One node at a time does it: none waits for another, and whoever removes the last delivery of an
-- event sees that it is the last.
with turn as materialized (
    select pg_try_advisory_xact_lock(hashtext(current_schema() || ' webhook retention')) as is_ours
)
select chosen.id::bigint
from turn
    cross join json_array_elements_text($1::text::json) as chosen (id)
where turn.is_ours
