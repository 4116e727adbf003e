update or fail jobs
set status = ?2, token = ?3, attempts = ?4, expiries = ?5, until = ?6, last_error = ?7
where id = ?1
