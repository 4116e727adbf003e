-- Messages for sagas.

-- name: load
select seq, body
from saga_inbox
where saga_id = ?1
order by seq

-- name: newest
select saga_id, max(seq) as newest
from saga_inbox
join sagas on sagas.id = saga_inbox.saga_id
where sagas.owner = ?1
group by saga_id

-- name: post
-- The row takes part, so that whoever ends the saga or lets it go sees that a message came in.
update sagas
set inbox_seq = inbox_seq + 1, wake_at = ?2
where id = ?1 and status in ('pending', 'running', 'compensating')
returning inbox_seq

-- name: append, sqlite only
insert or fail into saga_inbox (saga_id, seq, body, at)
values (?1, ?2, ?3, ?4)

-- name: consume, sqlite only
delete from saga_inbox
where saga_id = ?1 and seq <= ?2

-- name: clear, sqlite only
delete from saga_inbox
where saga_id = ?1
