-- What came with the newest transition out of each state. An event begins with where it comes from.
select data, max(seq)
from saga_events
where saga_id = ?1 and type = 'lifecycle.transitioned'
group by substr(data, 1, instr(substr(data, 10), '"') + 9)
