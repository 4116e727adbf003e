-- `pragma integrity_check` of SQLite 3.40 reports null values where a table without rowid has a `not null` column before a column of
-- its primary key.

-- Rebuilding the table would drop its triggers and check the references to it.
pragma writable_schema = on;

update sqlite_schema
set sql = replace(sql, 'place    integer not null', 'place    integer check (place is not null)')
where type = 'table' and name = 'lifecycle_states';

pragma writable_schema = reset;
