-- Nothing when the name belongs to a program's code, or somebody else has just taken this version.
with
kept as (
    insert into definitions (name, version, fingerprint, body)
    select $1::text, $2::integer, $3::bigint, $4::text
    where
        $2 = (select coalesce(max(version), 0) + 1 from definitions where name = $1)
        and ($2 = 1 or exists (select from declared where name = $1))
    on conflict do nothing
    returning name, version
)
insert into declared as d (name, staged)
select name, version
from kept
on conflict (name) do update set staged = excluded.staged, changed_at = clock()
returning d.staged
