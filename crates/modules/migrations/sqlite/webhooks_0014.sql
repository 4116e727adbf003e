-- `pragma integrity_check` of SQLite 3.40 reports null values where a table without rowid has a `not null` column before a column of
-- its primary key.
pragma writable_schema = on;

update sqlite_schema
set sql = replace(sql, 'paused_until    integer not null', 'paused_until    integer check (paused_until is not null)')
where type = 'table' and name = 'webhook_pauses';

pragma writable_schema = reset;
