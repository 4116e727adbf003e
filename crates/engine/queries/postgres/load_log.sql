select seq, at, type, step, attempt, data
from saga_events
where saga_id = $1 and seq > $2
    -- Lifecycles have their logs here too, and no sagas: whoever asks for one by its id finds nothing.
    and type not like 'action.%' and type not like 'lifecycle.%'
order by seq
limit $3
