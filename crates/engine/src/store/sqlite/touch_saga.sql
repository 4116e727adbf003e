-- The fence and the update of a saga that only goes on: its log ends with number ?9, and nothing of its row changes but the
-- time. Naming other columns would write their indexes anew.
update or fail sagas
set updated_at = ?7
where id = ?1
    and status = ?2
    and paused = ?3
    and failed_step is ?4
    and owner is ?5
    and wake_at is ?6
    and (?8 is null or inbox_seq = ?8)
    and (select max(seq) from saga_events where saga_id = ?1) = ?9
