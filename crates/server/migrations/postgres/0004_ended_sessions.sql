-- Sessions of the console that somebody signed out of, until they would have ended by themselves.

create table $schema.ended_sessions (
    nonce   bigint      primary key,
    ends_at timestamptz not null
);

create index ended_sessions_by_end on $schema.ended_sessions (ends_at);
