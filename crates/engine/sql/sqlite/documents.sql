-- Versioned documents: definitions, machines, settings.

-- name: load
-- This version, or without one the highest.
select name, version, fingerprint, body
from document_versions
where kind = ?1 and name = ?2 and (?3 is null or version = ?3)
order by version desc
limit 1

-- name: list
-- Of one name, or of all. Cross join: from the names to their versions, never the other way round.
select d.name, d.active, d.staged, d.changed_at, v.version, v.created_at
from documents d
    cross join document_versions v
where d.kind = ?1 and v.kind = d.kind and v.name = d.name and (?2 is null or d.name = ?2)
order by d.name, v.version

-- name: register
insert into document_versions (kind, name, version, fingerprint, body, created_at)
select ?1, ?2, ?3, ?4, ?5, ?6
where not exists (select 1 from document_versions where kind = ?1 and name = ?2 and version = ?3)

-- name: add
-- Nothing when the name belongs to a program's code, or another process has just added this version.
insert into document_versions (kind, name, version, fingerprint, body, created_at)
select ?1, ?2, ?3, ?4, ?5, ?6
where
    ?3 = (select coalesce(max(version), 0) + 1 from document_versions where kind = ?1 and name = ?2)
    and (?3 = 1 or exists (select 1 from documents where kind = ?1 and name = ?2))
returning version

-- name: point
insert into documents (kind, name, active, staged, changed_at)
values (?1, ?2, ?3, ?4, ?5)
on conflict (kind, name) do update
set active = coalesce(excluded.active, active), staged = excluded.staged, changed_at = excluded.changed_at

-- name: apply
-- Nothing when another version is staged than the one that is expected.
update documents
set active = staged, staged = null, changed_at = ?4
where kind = ?1 and name = ?2 and staged = coalesce(?3, staged)
returning active as version

-- name: discard
-- Nothing when another version is staged than the one that is expected. What is staged is always the highest version, and
-- `returning` sees the row as it is afterwards.
update documents
set staged = null, changed_at = ?4
where kind = ?1 and name = ?2 and staged = coalesce(?3, staged)
returning (
    select max(version)
    from document_versions
    where document_versions.kind = documents.kind and document_versions.name = documents.name
) as version

-- name: in_flight
-- Along three indexes that hold nothing that is over: what somebody has, what waits for its time, and what waits for a word; of each
-- version no more than people care to count.
select version, owned + due + idle as sagas
from (
    select
        version,
        (
            select count(*)
            from (
                select 1
                from sagas indexed by sagas_owned
                where owner is not null
                    and sagas.definition = definitions.name
                    and sagas.version = definitions.version
                limit ?2
            )
        ) as owned,
        (
            select count(*)
            from (
                select 1
                from sagas indexed by sagas_unowned_due
                where owner is null
                    and wake_at is not null
                    and sagas.definition = definitions.name
                    and sagas.version = definitions.version
                limit ?2
            )
        ) as due,
        (
            select count(*)
            from (
                select 1
                from sagas indexed by sagas_adrift
                where owner is null
                    and wake_at is null
                    and paused in (0, 1)
                    and (status = 'pending' or status = 'running' or status = 'compensating')
                    and sagas.definition = definitions.name
                    and sagas.version = definitions.version
                limit ?2
            )
        ) as idle
    from definitions
    where name = ?1
)
where owned + due + idle > 0
order by version
