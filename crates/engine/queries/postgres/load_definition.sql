-- This version, or without one the highest.
select name, version, fingerprint, body
from definitions
where name = $1 and ($2::integer is null or version = $2)
order by version desc
limit 1
