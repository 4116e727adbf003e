-- As update.sql, for a decision that ends it.
update or fail lifecycles
set state = ?3,
    ended = ?4,
    seq = ?5,
    entry = ?6,
    attempt = ?7,
    failures = ?8,
    interruptions = ?9,
    token = ?10,
    holder = ?11,
    correlation_id = ?12,
    error_kind = ?13,
    last_error = ?14,
    input = ?15,
    updated_at = ?16,
    entered_at = ?17,
    due_at = ?18,
    stuck_at = ?19,
    abandoned = ?20,
    leased = ?21
where id = ?1 and seq = ?2 and not ended and not abandoned
