select name, version, fingerprint, body
from definitions
where name = ?1 and version = ?2
