-- Versioned documents: definitions, machines, settings.

-- name: load
-- This version, or without one the highest.
select name, version, fingerprint, body
from document_versions
where kind = $1 and name = $2 and ($3::integer is null or version = $3)
order by version desc
limit 1

-- name: list
-- Of one name, or of all.
select d.name, d.active, d.staged, d.changed_at, v.version, v.created_at
from documents d
    join document_versions v on v.kind = d.kind and v.name = d.name
where d.kind = $1 and ($2::text is null or d.name = $2)
order by d.name, v.version

-- name: register
insert into document_versions (kind, name, version, fingerprint, body)
values ($1, $2, $3, $4, $5)
on conflict do nothing

-- name: add
-- Nothing when the name belongs to a program's code, or another process has just added this version.
insert into document_versions (kind, name, version, fingerprint, body)
select $1::text, $2::text, $3::integer, $4::bigint, $5::text
where
    $3 = (select coalesce(max(version), 0) + 1 from document_versions where kind = $1 and name = $2)
    and ($3 = 1 or exists (select from documents where kind = $1 and name = $2))
on conflict do nothing
returning version

-- name: point
with
pointed as (
    insert into documents as d (kind, name, active, staged)
    values ($1::text, $2::text, $3::integer, $4::integer)
    on conflict (kind, name) do update
    set active = coalesce(excluded.active, d.active), staged = excluded.staged, changed_at = excluded.changed_at
    returning kind
)
select case when $3::integer is not null then pg_notify(current_schema() || '_document', kind)::text end as told
from pointed

-- name: apply
-- Nothing when another version is staged than the one that is expected.
with
now as materialized (select clock() as at),
applied as (
    update documents
    set active = staged, staged = null, changed_at = (select at from now)
    where kind = $1 and name = $2 and staged = coalesce($3::integer, staged)
    returning kind, active
)
select active, pg_notify(current_schema() || '_document', kind)::text as told
from applied

-- name: discard
-- Nothing when another version is staged than the one that is expected.
with
now as materialized (select clock() as at),
found as (
    select kind, name, staged
    from documents
    where kind = $1 and name = $2 and staged = coalesce($3::integer, staged)
    for update
),
discarded as (
    update documents
    set staged = null, changed_at = (select at from now)
    from found
    where documents.kind = found.kind and documents.name = found.name
)
select staged
from found

-- name: in_flight
-- Along three indexes that hold nothing that is over: what somebody has, what waits for its time, and what waits for a word; of each
-- version no more than people care to count.
select definitions.version, counted.sagas
from definitions
    cross join lateral (
        select count(*) as sagas
        from (
            (
                select 1
                from sagas
                where owner is not null and definition = definitions.name and version = definitions.version
                limit $2
            )
            union all
            (
                select 1
                from sagas
                where owner is null
                    and wake_at is not null
                    and definition = definitions.name
                    and version = definitions.version
                limit $2
            )
            union all
            (
                select 1
                from sagas
                where owner is null
                    and wake_at is null
                    and paused in (false, true)
                    and status in ('pending', 'running', 'compensating')
                    and definition = definitions.name
                    and version = definitions.version
                limit $2
            )
        ) as few
    ) as counted
where definitions.name = $1 and counted.sagas > 0
order by definitions.version
