-- Versioned documents of every kind in one place: definitions of sagas, and what products stage and apply.

create table document_versions (
    kind        text    not null,
    name        text    not null,
    version     integer not null,
    -- What the logs of sagas depend on. Only definitions of sagas have one.
    fingerprint integer,
    body        text    not null,
    created_at  integer not null,
    primary key (kind, name, version),
    check (kind <> 'saga' or fingerprint is not null)
) strict, without rowid;

-- Which version is active, and which one is staged. Definitions that came with a program's code have no row here.
create table documents (
    kind       text    not null,
    name       text    not null,
    active     integer,
    staged     integer,
    changed_at integer not null,
    primary key (kind, name),
    foreign key (kind, name, active) references document_versions (kind, name, version),
    foreign key (kind, name, staged) references document_versions (kind, name, version)
) strict, without rowid;

insert into document_versions (kind, name, version, fingerprint, body, created_at)
select 'saga', name, version, fingerprint, body, created_at from definitions;

insert into documents (kind, name, active, staged, changed_at)
select 'saga', name, active, staged, changed_at from declared;

drop table declared;
drop table definitions;

-- As queries about sagas know them.
create view definitions as
select name, version, fingerprint, body, created_at
from document_versions
where kind = 'saga';

create trigger document_versions_never_change before update on document_versions
begin
    select raise(abort, 'a version of a document never changes: put in a new version');
end;

-- `INSERT OR REPLACE` fires no delete trigger, so a key that exists is refused.
create trigger document_versions_refuse_replace before insert on document_versions
when exists (
    select 1
    from document_versions
    where kind = new.kind and name = new.name and version = new.version
)
begin
    select raise(abort, 'the document has this version: put in a new version');
end;

create trigger document_versions_refuse_delete before delete on document_versions
begin
    select raise(abort, 'a version of a document is never deleted: what was started with it and logs refer to it');
end;

create trigger documents_refuse_new_name before update of kind, name on documents
begin
    select raise(abort, 'the kind and the name of a document never change: put in a new one');
end;

create trigger documents_refuse_delete before delete on documents
begin
    select raise(abort, 'a document is never deleted: what was started with it and logs refer to it');
end;
