-- Adds a channel to those that replace the earlier ones.
insert into alert_channels (channel, recipient)
values (?1, ?2)
