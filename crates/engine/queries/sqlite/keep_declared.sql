-- Nothing when the name belongs to a program's code, or somebody else has just taken this version.
insert into definitions (name, version, fingerprint, body, created_at)
select ?1, ?2, ?3, ?4, ?5
where
    ?2 = (select coalesce(max(version), 0) + 1 from definitions where name = ?1)
    and (?2 = 1 or exists (select 1 from declared where name = ?1))
