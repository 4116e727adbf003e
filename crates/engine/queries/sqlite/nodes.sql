select epoch, name, started_at, heartbeat_at, heartbeat_at + lease_ms * 1000 > ?1
from nodes
order by epoch desc
limit ?2
