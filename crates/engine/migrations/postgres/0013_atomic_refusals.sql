-- A refusal undoes the whole statement here: see the other dialect. The check holds for new rows: one of another program that is
-- there already is refused when it is read.
alter table idempotency_ledger
    add constraint idempotency_key_of_start_names_its_saga check (saga_id is not null or scope not like 'saga/%')
    not valid;
