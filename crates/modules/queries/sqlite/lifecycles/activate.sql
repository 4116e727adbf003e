insert into lifecycle_declared (name, active, changed_at)
values (?1, ?2, ?3)
on conflict (name) do update set active = excluded.active, staged = null, changed_at = excluded.changed_at
