-- Actions that are due become this process's for a while. A claim that ran out and that it does not hold could not be given
-- back: its action was interrupted.
update lifecycles
set token = token + 1, interruptions = interruptions + (holder is not null), holder = ?3, due_at = ?4
where id in (
    select id
    from lifecycles
    where
        due_at <= ?1 and (holder is null or lower(hex(id)) not in (select value from json_each(?7)))
        and machine not in (select value from json_each(?5))
        and lower(hex(id)) not in (
            select replace(item, '-', '') from parked_items where area = 'lifecycle_actions' and retry_at > ?1
        )
        and (?6 is null or lower(hex(id)) in (select value from json_each(?6)))
    order by due_at
    limit ?2
)
