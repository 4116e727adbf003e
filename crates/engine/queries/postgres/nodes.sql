select epoch, name, started_at, heartbeat_at, heartbeat_at + lease_ms * interval '1 ms' > clock() as lives
from nodes
order by epoch desc
limit $1
