-- An item that was not rejected again for a day is no longer known.
delete from parked_items
where retry_at < ?1 - 86400000000
