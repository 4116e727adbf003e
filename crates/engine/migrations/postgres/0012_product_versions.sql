-- Nodes say which tables of products they know, by product and version. A migration of a product that brings data which
-- older nodes cannot read has the database refuse their heartbeats.

-- Nodes of earlier versions do not say.
alter table nodes add column products jsonb;
