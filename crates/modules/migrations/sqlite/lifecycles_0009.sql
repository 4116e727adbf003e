-- Machines are documents like all others; a state refers to the version that has it.

insert into document_versions (kind, name, version, body, created_at)
select 'lifecycle', name, version, body, created_at from lifecycle_machines;

insert into documents (kind, name, active, staged, changed_at)
select 'lifecycle', name, active, staged, changed_at from lifecycle_declared;

alter table lifecycle_states add column kind text not null default 'lifecycle' check (kind = 'lifecycle');

-- SQLite cannot change a foreign key otherwise; rebuilding the table would drop the triggers of others.
pragma writable_schema = on;

update sqlite_schema
set sql = replace(
    sql,
    'foreign key (machine, version) references lifecycle_machines (name, version)',
    'foreign key (kind, machine, version) references document_versions (kind, name, version)')
where type = 'table' and name = 'lifecycle_states';

pragma writable_schema = reset;

drop table lifecycle_declared;
drop table lifecycle_machines;
