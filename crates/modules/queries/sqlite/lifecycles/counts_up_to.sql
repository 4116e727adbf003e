-- In the order of the newest version that has them.
select
    s.state,
    (
        select count(*)
        from (
            select 1
            from lifecycles as l indexed by lifecycles_state
            where l.machine = ?1 and l.state = s.state
            limit ?2
        )
    )
from lifecycle_states as s
where
    s.machine = ?1
    and not exists (
        select 1
        from lifecycle_states as newer
        where newer.machine = s.machine and newer.state = s.state and newer.version > s.version
    )
order by s.version desc, s.place
