insert into lifecycle_states (machine, version, state, place, terminal)
values (?1, ?2, ?3, ?4, ?5)
