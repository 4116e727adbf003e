delete from backstitch.ended_sessions where ends_at <= $1
