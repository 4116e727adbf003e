-- Who has taken an alert upon them, once for each alert and for good.

create table $schema.alert_acknowledgements (
    acknowledged_at timestamptz      not null,
    alert_key       text collate "C" not null primary key,
    acknowledged_by text             not null,
    note            text             not null
);

create index alert_acknowledgements_by_time on $schema.alert_acknowledgements (acknowledged_at);

create trigger alert_acknowledgements_never_change
    before update on $schema.alert_acknowledgements
    for each row
    execute function $schema.refuse('the alert is acknowledged: who did so, and when, never changes');
