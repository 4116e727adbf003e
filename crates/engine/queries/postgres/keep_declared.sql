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
),
standing as (
    insert into declared as d (name, active, staged)
    select name, case when $5::boolean then version end, case when not $5 then version end
    from kept
    on conflict (name) do update
    set active = coalesce(excluded.active, d.active), staged = excluded.staged, changed_at = clock()
    returning name
)
select case when $5 then pg_notify('backstitch_definition', name)::text end as told
from standing
