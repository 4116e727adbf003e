select epoch, name, started_at
from nodes
order by epoch desc
limit ?1
