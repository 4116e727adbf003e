insert or fail into lifecycles (
    id, machine, key, version, state, ended, seq, entry, attempt, failures, token, holder, correlation_id, error_kind,
    last_error, input, created_at, updated_at, entered_at, due_at, stuck_at, abandoned, leased
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)
