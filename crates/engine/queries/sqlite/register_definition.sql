insert into definitions (name, version, fingerprint, body, created_at)
values (?1, ?2, ?3, ?4, ?5)
on conflict do nothing
