-- Takes what `adopt_pick.sql` has picked. A dead owner's saga is taken only if its `saga.adopted` is the next event of the
-- log: this keeps out what the old owner may still append. A saga without an owner was released by it, so there is nothing
-- to keep out and its log stays as it is.
, appended as (
    insert into saga_events (at, saga_id, seq, type, data)
    select greatest(head.at, $6), taken.id, head.seq + 1, 'saga.adopted', $7
    from (select id from orphaned order by id) as taken
        cross join lateral (
            select seq, at
            from saga_events
            where saga_id = taken.id
            order by seq desc
            limit 1
        ) as head
    on conflict do nothing
    returning saga_id, seq, at
),
taken as (
    select saga_id as id, seq, at from appended
    union all
    select id, null, null from due
)
update sagas
set owner = $3, wake_at = null
from taken
where sagas.id = taken.id
returning sagas.id, sagas.definition, taken.seq, taken.at
