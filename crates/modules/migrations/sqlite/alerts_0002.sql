-- Who has taken an alert upon them, once for each alert and for good.

create table alert_acknowledgements (
    alert_key       text    not null primary key,
    acknowledged_by text    not null,
    note            text    not null,
    acknowledged_at integer not null
) strict, without rowid;

create index alert_acknowledgements_by_time on alert_acknowledgements (acknowledged_at);

create trigger alert_acknowledgements_never_change before update on alert_acknowledgements
begin
    select raise(abort, 'the alert is acknowledged: who did so, and when, never changes');
end;
