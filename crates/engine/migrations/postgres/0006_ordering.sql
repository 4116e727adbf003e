-- An ordering key holds within a topic, or across all topics of a pattern: the scope, such as `sites.provisioning.*`.
alter table outbox add column ordering_scope text collate "C";

drop index outbox_unsent_in_order;
create index outbox_unsent_in_order on outbox (ordering_key, coalesce(ordering_scope, topic), id)
    where ordering_key is not null and status in ('pending', 'sending', 'failed');

drop trigger outbox_refuse_new_origin on outbox;
create trigger outbox_refuse_new_origin
    before update of
        id, topic, idempotency_key, ordering_key, ordering_scope, payload, request_digest, retry_of, created_at
    on outbox
    for each row
    execute function refuse('what a message was published with never changes: publish a new message');
