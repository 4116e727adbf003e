-- Where something can have ended. A state may be an end in one version of its machine and none in another.
select distinct machine, state
from lifecycle_states
where terminal
order by machine, state
