insert into audit (at, key_id, key_name, role, peer, method, path, subject)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
returning id
