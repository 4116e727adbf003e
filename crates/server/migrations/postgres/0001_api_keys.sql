-- Who may ask the server for what. A key itself is nowhere: only its keyed hash.

create table $schema.api_keys (
    id         bigint generated always as identity primary key,
    created_at timestamptz      not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    hash       bytea            not null unique check (octet_length(hash) = 32),
    role       text collate "C" not null check (role in ('viewer', 'client', 'worker', 'operator', 'admin')),
    name       text             not null,
    last_four  text             not null
);

create function $schema.api_keys_stay_revoked() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'the key is revoked: create a new one';
end;
$$;

create trigger api_keys_revoked_stay_revoked
    before update on $schema.api_keys
    for each row
    when (old.revoked_at is not null)
    execute function $schema.api_keys_stay_revoked();
