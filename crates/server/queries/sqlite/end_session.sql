insert into ended_sessions (nonce, ends_at) values (?1, ?2) on conflict do nothing
