-- When the decision in force ends by itself, beside it. Who ends decisions asks for those that are over by an index, and for none
-- that another one superseded, however many there are.

-- What was taken before times were held to RFC 3339 is over at any time: who asks looks at it.
create function decision_ends_at(said text) returns timestamptz language plpgsql stable parallel safe as $$
begin
    if said ~ '^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-](0\d|1[0-4]):\d\d)$' then
        return said::timestamptz;
    end if;
    return case when said is not null then '-infinity'::timestamptz end;
exception when data_exception then
    return '-infinity';
end $$;

alter table moderation_current add column ends_at timestamptz;
comment on column moderation_current.ends_at is 'When the decision in force ends by itself; null: never.';

-- Whoever writes it, an owner of an earlier release too; the decision itself is written before.
create function moderation_note_end() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
    new.ends_at := (select decision_ends_at(d.expires_at) from moderation_decision d where d.decision_id = new.decision_id);
    return new;
end $$;
create trigger decision_has_an_end before insert or update of decision_id on moderation_current for each row
    execute function moderation_note_end();

update moderation_current c set ends_at = decision_ends_at(d.expires_at)
from moderation_decision d where d.decision_id = c.decision_id and d.expires_at is not null;

create index moderation_current_ends on moderation_current (ends_at) where ends_at is not null;
