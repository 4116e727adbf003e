select audit.id, audit.at, key_id, key_name, role, peer, method, path, subject, status, what
from audit
    left join audit_answers on audit_answers.audit_id = audit.id
where audit.id < ?1
order by audit.id desc
limit ?2
