update or fail jobs
set status = ?2, token = ?3, until = ?4, lease_holder = ?5, lease_version = ?6
where id = ?1
