delete from webhook_senders where id = $1
