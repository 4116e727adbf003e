-- Versioned documents of every kind in one place: definitions of sagas, and what products stage and apply.

create table document_versions (
    created_at  timestamptz      not null default clock(),
    -- What the logs of sagas depend on. Only definitions of sagas have one.
    fingerprint bigint,
    version     integer          not null,
    kind        text collate "C" not null,
    name        text collate "C" not null,
    body        text             not null,
    primary key (kind, name, version),
    check (kind <> 'saga' or fingerprint is not null)
);

-- Which version is active, and which one is staged. Definitions that came with a program's code have no row here.
create table documents (
    changed_at timestamptz      not null default clock(),
    active     integer,
    staged     integer,
    kind       text collate "C" not null,
    name       text collate "C" not null,
    primary key (kind, name),
    foreign key (kind, name, active) references document_versions (kind, name, version),
    foreign key (kind, name, staged) references document_versions (kind, name, version)
);

insert into document_versions (kind, name, version, created_at, fingerprint, body)
select 'saga', name, version, created_at, fingerprint, body from definitions;

insert into documents (kind, name, active, staged, changed_at)
select 'saga', name, active, staged, changed_at from declared;

drop table declared;
drop table definitions;

-- As queries about sagas and the function `start` know them.

create view definitions as
select name, version, fingerprint, body, created_at
from document_versions
where kind = 'saga';

create view declared as
select name, active, staged, changed_at
from documents
where kind = 'saga';

create trigger document_versions_never_change
    before update on document_versions
    for each row
    execute function refuse('a version of a document never changes: put in a new version');

create trigger document_versions_refuse_delete
    before delete or truncate on document_versions
    for each statement
    execute function refuse('a version of a document is never deleted: what was started with it and logs refer to it');

create trigger documents_refuse_new_name
    before update of kind, name on documents
    for each row
    execute function refuse('the kind and the name of a document never change: put in a new one');

create trigger documents_refuse_delete
    before delete or truncate on documents
    for each statement
    execute function refuse('a document is never deleted: what was started with it and logs refer to it');
