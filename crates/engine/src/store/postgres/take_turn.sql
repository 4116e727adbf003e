insert into backstitch.turns as t (what, until, holder)
values ('retention', backstitch.clock() + $2::bigint * interval '1 millisecond', $1)
on conflict (what) do update
set until = excluded.until, holder = excluded.holder
where t.holder = excluded.holder or t.until <= backstitch.clock()
returning t.holder
