insert into documents (kind, name, active, staged, changed_at)
values (?1, ?2, ?3, ?4, ?5)
on conflict (kind, name) do update
set active = coalesce(excluded.active, active), staged = excluded.staged, changed_at = excluded.changed_at
