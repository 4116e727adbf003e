-- The next definition after one, and when the first of its sagas that are nobody's is due, along the index. Column by column,
-- because a comparison of rows would begin with those that are equal.
select definition, version, wake_at
from (
    select *
    from (
        select definition, version, wake_at
        from sagas
        where owner is null and wake_at is not null and definition = ?1 and version > ?2
        order by version, wake_at
        limit 1
    )
    union all
    select *
    from (
        select definition, version, wake_at
        from sagas
        where owner is null and wake_at is not null and definition > ?1
        order by definition, version, wake_at
        limit 1
    )
)
order by definition, version
limit 1
