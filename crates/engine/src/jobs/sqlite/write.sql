update or fail jobs
set status = ?2, token = ?3, until = ?4, attempts = ?5, expiries = ?6, last_error = coalesce(?7, last_error)
where id = ?1
