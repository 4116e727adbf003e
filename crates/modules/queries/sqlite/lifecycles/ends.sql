-- Where something can have ended: in a terminal state, or abandoned in a pause state. A state may be an end in one version of
-- its machine and none in another.
select distinct s.machine, s.state
from lifecycle_states as s
where
    s.terminal
    or exists (
        select 1
        from lifecycles as l indexed by lifecycles_abandoned
        where l.machine = s.machine and l.state = s.state and l.abandoned
    )
order by s.machine, s.state
