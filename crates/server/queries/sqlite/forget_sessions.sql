delete from ended_sessions where ends_at <= ?1
