insert into audit (at, key_id, key_name, role, peer, method, path, subject)
values (timestamptz 'epoch' + $1::bigint * interval '1 microsecond', $2, $3, $4, $5, $6, $7, $8)
returning id
