-- Machines are documents like all others; a state refers to the version that has it.

insert into document_versions (kind, name, version, created_at, body)
select 'lifecycle', name, version, created_at, body from lifecycle_machines;

insert into documents (kind, name, active, staged, changed_at)
select 'lifecycle', name, active, staged, changed_at from lifecycle_declared;

alter table lifecycle_states drop constraint lifecycle_states_machine_version_fkey;
alter table lifecycle_states
    add column kind text collate "C" not null default 'lifecycle' check (kind = 'lifecycle'),
    add foreign key (kind, machine, version) references document_versions (kind, name, version);

drop table lifecycle_declared;
drop table lifecycle_machines;
