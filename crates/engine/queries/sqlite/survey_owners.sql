-- The next owner after one, along the index: asked again and again, it costs the number of owners, not of sagas. Column by
-- column, because a comparison of rows would begin with those that are equal.
select definition, version, owner, (select name from nodes where epoch = owner) as name
from (
    select *
    from (
        select definition, version, owner
        from sagas
        where owner is not null and definition = ?1 and version = ?2 and owner > ?3
        order by owner
        limit 1
    )
    union all
    select *
    from (
        select definition, version, owner
        from sagas
        where owner is not null and definition = ?1 and version > ?2
        order by version, owner
        limit 1
    )
    union all
    select *
    from (
        select definition, version, owner
        from sagas
        where owner is not null and definition > ?1
        order by definition, version, owner
        limit 1
    )
)
order by definition, version, owner
limit 1
