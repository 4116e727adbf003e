-- The row takes part, so that whoever ends the saga or lets it go sees that a message came in.
update sagas
set inbox_seq = inbox_seq + 1, wake_at = ?2
where id = ?1 and status in ('pending', 'running', 'compensating')
returning inbox_seq
