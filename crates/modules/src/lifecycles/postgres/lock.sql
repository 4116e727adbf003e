-- What exists of what is asked about, locked in one order.
from lifecycles as l
    join unnest($1::text[], $2::text[]) as a (asked_machine, asked_key)
        on l.machine = a.asked_machine and l.key = a.asked_key
order by l.machine, l.key
for update of l
