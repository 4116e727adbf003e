-- Sessions of the console that were ended before their time.

-- name: end
insert into ended_sessions (nonce, ends_at) values (?1, ?2) on conflict do nothing

-- name: list
select nonce from ended_sessions where ends_at > ?1

-- name: forget
delete from ended_sessions where ends_at <= ?1
