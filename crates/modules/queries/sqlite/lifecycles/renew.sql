-- Whoever performs an action is alive. A claim that somebody else has taken over stays theirs.
update lifecycles
set due_at = ?2
where holder is not null
    and (id, token) in (
        select unhex(replace(value ->> 'id', '-', '')), value ->> 'token'
        from json_each(?1)
    )
returning id
