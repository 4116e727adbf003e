insert into lifecycle_machines (name, version, body, created_at)
values ($1, $2, $3, $4)
on conflict do nothing
returning version
