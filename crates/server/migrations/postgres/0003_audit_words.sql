-- What was done, where the path does not say it: which decision, on which filter, to how many.

alter table $schema.audit_answers add column what text;
