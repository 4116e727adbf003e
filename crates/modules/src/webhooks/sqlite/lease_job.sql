update or fail jobs
set status = ?2, token = ?3, until = ?4, handed_out_by = ?5, handed_out_as = ?6
where id = ?1
