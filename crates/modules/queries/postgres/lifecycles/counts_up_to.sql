-- In the order of the newest version that has them. Counted along a range of both columns, in whose order only the index by
-- state has them: a server would read the table from its beginning for a common state, and to its end for one that got rare.
select
    s.state,
    (
        select count(*)
        from (
            select
            from lifecycles as l
            where (l.machine, l.state) >= ($1, s.state) and (l.machine, l.state) <= ($1, s.state)
            order by l.machine, l.state, l.id
            limit $2
        ) as counted
    )
from lifecycle_states as s
where
    s.machine = $1
    and not exists (
        select 1
        from lifecycle_states as newer
        where newer.machine = s.machine and newer.state = s.state and newer.version > s.version
    )
order by s.version desc, s.place
