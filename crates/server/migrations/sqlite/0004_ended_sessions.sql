-- Sessions of the console that somebody signed out of, until they would have ended by themselves.

create table ended_sessions (
    nonce   integer primary key,
    ends_at integer not null
) strict;

create index ended_sessions_by_end on ended_sessions (ends_at);
