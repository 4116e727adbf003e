insert into alert_recipients (alert_key, channel, recipient)
select ?1, ?2, ?3
where not exists (
    select 1
    from alert_recipients
    where alert_key = ?1 and channel = ?2 and recipient = ?3
)
