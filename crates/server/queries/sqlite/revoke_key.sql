update api_keys set revoked_at = ?2
where id = ?1 and revoked_at is null
