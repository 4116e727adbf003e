-- Picks sagas of dead owners, then due sagas without an owner. What follows is `adopt_picked.sql`, or a list of them.
with recursive
-- A node that was struck off takes nothing.
known as (
    select definition, version
    from unnest($1::text[], $2::integer[]) as k (definition, version)
    where exists (select from nodes where epoch = $3)
),
-- Every owner of a saga of these definitions, each found by one step through the index.
owners as (
    select
        k.definition, k.version,
        (
            select min(s.owner)
            from sagas s
            where s.owner is not null and s.definition = k.definition and s.version = k.version
        ) as epoch
    from known k
    union all
    select
        o.definition, o.version,
        (
            select min(s.owner)
            from sagas s
            where s.owner is not null
                and s.definition = o.definition
                and s.version = o.version
                and s.owner > o.epoch
        )
    from owners o
    where o.epoch is not null
),
orphaned as (
    select s.id
    from owners o
        cross join lateral (
            select id
            from sagas
            where owner is not null
                and definition = o.definition
                and version = o.version
                and owner = o.epoch
                and status in ('pending', 'running', 'compensating')
                and id <> all (array(select item::uuid from parked_items where area = 'adoption' and retry_at > clock()))
                and ($5::uuid[] is null or id = any ($5))
            limit $4
            for no key update skip locked
        ) as s
    where o.epoch is not null and not exists (select from nodes n where n.epoch = o.epoch)
    limit $4
),
due as (
    select s.id
    from known k
        cross join lateral (
            select id
            from sagas
            where owner is null
                and wake_at is not null
                and definition = k.definition
                and version = k.version
                and wake_at <= clock()
                and status in ('pending', 'running', 'compensating')
                and id <> all (array(select item::uuid from parked_items where area = 'adoption' and retry_at > clock()))
                and ($5::uuid[] is null or id = any ($5))
            order by wake_at
            limit greatest($4 - (select count(*) from orphaned), 0)
            for no key update skip locked
        ) as s
    limit greatest($4 - (select count(*) from orphaned), 0)
)
