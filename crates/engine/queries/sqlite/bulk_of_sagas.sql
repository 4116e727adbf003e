-- How long a log is, by the heads of its rows.
select count(*), coalesce(sum(octet_length(data)), 0) from saga_events where saga_id = ?1
