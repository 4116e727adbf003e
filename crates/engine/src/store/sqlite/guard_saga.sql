-- What a decision is checked against: where the saga stands, its newest message and its newest event.
select status, inbox_seq, (select coalesce(max(seq), 0) from saga_events where saga_id = ?1)
from sagas
where id = ?1
