-- Changes of settings are documents like all others.

insert into document_versions (kind, name, version, created_at, body)
select 'order_' || kind, 'orders', 1, staged_at, staged from order_settings;

insert into documents (kind, name, staged, changed_at)
select 'order_' || kind, 'orders', 1, staged_at from order_settings;

drop table order_settings;
