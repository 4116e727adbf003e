-- What nobody runs though it could go on: due and unowned, or left behind by a life that is over; of each version no more than
-- people care to count.
select name, version, due + left_behind
from (
    select
        name,
        version,
        (
            select count(*)
            from (
                select 1
                from sagas indexed by sagas_unowned_due
                where owner is null
                    and wake_at is not null
                    and sagas.definition = definitions.name
                    and sagas.version = definitions.version
                    and wake_at <= ?1
                limit ?2
            )
        ) as due,
        (
            select count(*)
            from (
                select 1
                from sagas indexed by sagas_owned
                where owner is not null
                    and sagas.definition = definitions.name
                    and sagas.version = definitions.version
                    and owner < coalesce((select min(epoch) from nodes), 9223372036854775807)
                limit ?2
            )
        ) as left_behind
    from definitions
)
where due + left_behind > 0
order by name, version
