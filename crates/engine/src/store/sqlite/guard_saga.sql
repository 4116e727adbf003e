-- What a decision is checked against: where the saga stands, its newest message, its newest event, and whose it is.
select status, inbox_seq, (select coalesce(max(seq), 0) from saga_events where saga_id = ?1), owner, wake_at
from sagas
where id = ?1
