-- Writes the pauses of a node, removes those that ended, and removes what expired of any node. Those of a deleted subscription
-- are not written. In the order of subscriptions, as all nodes lock them.
with
ended as (
    delete from webhook_pauses
    where node = $1 and subscription_id in (select id::bigint from json_array_elements_text($3::text::json) as ended (id))
),
expired as (
    delete from webhook_pauses
    where (subscription_id, node) in (
        select subscription_id, node
        from webhook_pauses
        where paused_until <= clock() and node <> $1
        order by subscription_id, node
        for update skip locked
    )
)
insert into webhook_pauses (subscription_id, node, paused_until, reason)
select s.id, $1, clock() + (pause ->> 1)::bigint * interval '1 millisecond', pause ->> 2
from json_array_elements($2::text::json) as pauses (pause)
    join webhook_subscriptions as s on s.id = (pause ->> 0)::bigint and s.deleted_at is null
order by s.id
on conflict (subscription_id, node) do update set paused_until = excluded.paused_until, reason = excluded.reason
