with
pointed as (
    insert into documents as d (kind, name, active, staged)
    values ($1::text, $2::text, $3::integer, $4::integer)
    on conflict (kind, name) do update
    set active = coalesce(excluded.active, d.active), staged = excluded.staged, changed_at = excluded.changed_at
    returning kind
)
select case when $3::integer is not null then pg_notify('backstitch_document', kind)::text end as told
from pointed
