-- This version, or without one the highest.
select name, version, fingerprint, body
from document_versions
where kind = ?1 and name = ?2 and (?3 is null or version = ?3)
order by version desc
limit 1
