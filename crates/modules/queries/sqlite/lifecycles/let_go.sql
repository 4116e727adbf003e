-- Nobody performs these any more: they are due for whoever comes, from then on.
update lifecycles
set due_at = ?2, holder = null
where holder is not null
    and (id, token) in (
        select unhex(replace(value ->> 'id', '-', '')), value ->> 'token'
        from json_each(?1)
    )
