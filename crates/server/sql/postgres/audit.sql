-- Requests for changes, and their answers.

-- name: insert
insert into audit (at, key_id, key_name, role, peer, method, path, subject)
values (timestamptz 'epoch' + $1::bigint * interval '1 microsecond', $2, $3, $4, $5, $6, $7, $8)
returning id

-- name: answer
insert into audit_answers (audit_id, at, status, what)
values ($1, timestamptz 'epoch' + $2::bigint * interval '1 microsecond', $3, $4)

-- name: list
select
    audit.id,
    (extract(epoch from audit.at) * 1000000)::bigint as at,
    key_id, key_name, role, peer, method, path, subject, status, what
from audit
    left join audit_answers on audit_answers.audit_id = audit.id
where audit.id < $1
order by audit.id desc
limit $2
