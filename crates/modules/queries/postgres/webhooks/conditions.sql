-- The status of the newest deliveries of each chosen subscription, and its dead letters as far as they are counted. Said as ranges of both columns, in whose order only the indexes by subscription can give them: a server
-- that took a rare subscription for a common one would otherwise go through all deliveries by their numbers.
select
    chosen.id::bigint,
    lately.looked_at,
    lately.retrying,
    lately.given_up,
    (
        select count(*)
        from (
            select
            from dead_letters as d
            where (d.subscription_id, d.saga_id) > (chosen.id::bigint, 0) and d.subscription_id <= chosen.id::bigint
            order by d.subscription_id, d.saga_id
            limit $3
        ) as counted
    )
from json_array_elements_text($1::text::json) with ordinality as chosen (id, place)
    cross join lateral (
        select
            count(*) as looked_at,
            count(*) filter (where status = 'PendingRetry') as retrying,
            count(*) filter (where status = 'DeadLettered') as given_up
        from (
            select s.status
            from webhook_delivery_sagas as s
            where
                (s.subscription_id, s.id) < (chosen.id::bigint, 9223372036854775807)
                and s.subscription_id >= chosen.id::bigint
            order by s.subscription_id desc, s.id desc
            limit $2
        ) as newest
    ) as lately
order by chosen.place
