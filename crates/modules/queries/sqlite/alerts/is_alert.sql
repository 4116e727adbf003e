select exists (select 1 from outbox where id = ?1 and topic = 'backstitch.alerts')
