select min(due.wake_at) as wake_at
from unnest($1::text[], $2::integer[]) as known (definition, version)
    cross join lateral (
        select min(wake_at) as wake_at
        from sagas
        where owner is null
            and wake_at is not null
            and definition = known.definition
            and version = known.version
            and id <> all (array(select item::uuid from parked_items where area = 'adoption' and retry_at > clock()))
    ) as due
