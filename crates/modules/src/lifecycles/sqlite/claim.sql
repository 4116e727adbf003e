-- Actions that are due become this process's. Whatever somebody holds is held by this process: a file has no other.
update lifecycles
set token = token + 1, holder = ?3, due_at = ?4
where id in (
    select id
    from lifecycles
    where due_at <= ?1 and holder is null and machine not in (select value from json_each(?5))
    order by due_at
    limit ?2
)
