select coalesce(max(seq), 0)
from sqlite_sequence
where name = 'jobs'
