select name, version, fingerprint, body
from definitions
where name = ?1
order by version desc
limit 1
