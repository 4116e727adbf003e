insert into lifecycle_dead_letters (at, source, body, reason, mark)
values ($1, $2, $3, $4, $5)
on conflict (mark) do nothing
returning id
