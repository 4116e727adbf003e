-- Nodes say which schema they know. A migration that brings data which older nodes cannot read has the database refuse
-- their heartbeats, by a trigger that the migration's own code sets: the version is known there.

-- Nodes of earlier versions do not say.
alter table nodes add column schema_version bigint not null default 0;
