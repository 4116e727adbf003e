-- Who may ask the server for what. A key itself is nowhere: only its keyed hash.

create table api_keys (
    id         integer primary key autoincrement,
    hash       blob    not null unique check (length(hash) = 32),
    role       text    not null check (role in ('viewer', 'client', 'worker', 'operator', 'admin')),
    name       text    not null,
    last_four  text    not null,
    created_at integer not null,
    expires_at integer,
    revoked_at integer
) strict;

create trigger api_keys_revoked_stay_revoked before update on api_keys
when old.revoked_at is not null
begin
    select raise(abort, 'the key is revoked: create a new one');
end;
