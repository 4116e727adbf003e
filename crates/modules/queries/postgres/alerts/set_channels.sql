-- Replaces the channels.
with removed as (
    delete from alert_channels
    where (channel, recipient) not in (
        select given.channel, given.recipient
        from unnest($1::text[], $2::text[]) as given (channel, recipient)
    )
)
insert into alert_channels (channel, recipient)
select given.channel, given.recipient
from unnest($1::text[], $2::text[]) as given (channel, recipient)
on conflict do nothing
returning channel
