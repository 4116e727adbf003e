select body
from lifecycle_machines
where name = ?1 and version = ?2
