insert into lifecycle_declared (name, staged, changed_at)
values (?1, ?2, ?3)
on conflict (name) do update set staged = excluded.staged, changed_at = excluded.changed_at
