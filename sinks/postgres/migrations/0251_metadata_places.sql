-- Lists by metadata find a value by a digest of it, in the order of the list: an entry of two words, which stood in a row and in
-- its key, cost a created payment 700 bytes of WAL, and costs 340 now. What a digest leads to is compared with what was asked.
create function metadata_digest(p_kind text, p_merchant_id text, p_key text, p_value text) returns bigint
language sql stable parallel safe
return ('x' || encode(substr(sha256(convert_to(
    p_kind || chr(31) || p_merchant_id || chr(31) || p_key || chr(31) || p_value, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint;

lock table payment_intent, refund, payout in share row exclusive mode;
create table metadata_place (
    digest     bigint not null,
    created_at timestamptz not null,
    id         text collate "C" not null  -- of the payment, refund or payout
);
insert into metadata_place (digest, created_at, id)
select metadata_digest(kind, merchant_id, key, value), created_at, id from metadata_entry order by created_at;
-- Without the id: few rows of a value are of one moment, and these few are sorted.
create index metadata_place_in_order on metadata_place (digest, created_at);

-- As before, but for what they write.
create or replace function metadata_entries_follow() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
    if tg_op = 'UPDATE' then
        delete from metadata_place m using json_each_text(old.metadata::json) e
        where m.digest = metadata_digest(tg_table_name, old.merchant_id, e.key, e.value)
          and m.created_at = old.created_at and m.id = old.id;
    end if;
    insert into metadata_place (digest, created_at, id)
    select metadata_digest(tg_table_name, new.merchant_id, e.key, e.value), new.created_at, new.id
    from json_each_text(new.metadata::json) e;
    return null;
end $$;
create or replace function metadata_entries_of_new() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
    insert into metadata_place (digest, created_at, id)
    select metadata_digest(tg_table_name, f.merchant_id, e.key, e.value), f.created_at, f.id
    from fresh f, json_each_text(f.metadata::json) e where f.metadata <> '{}';
    return null;
end $$;

-- For an ingress of an earlier release, which reads all payments of a merchant for a list by metadata while it is there.
drop table metadata_entry;
create view metadata_entry as
select 'payment_intent' collate "C" as kind, t.merchant_id, e.key collate "C" as key, e.value collate "C" as value, t.created_at, t.id
from payment_intent t, json_each_text(t.metadata::json) e where t.metadata <> '{}'
union all
select 'refund' collate "C", t.merchant_id, e.key collate "C", e.value collate "C", t.created_at, t.id
from refund t, json_each_text(t.metadata::json) e where t.metadata <> '{}'
union all
select 'payout' collate "C", t.merchant_id, e.key collate "C", e.value collate "C", t.created_at, t.id
from payout t, json_each_text(t.metadata::json) e where t.metadata <> '{}';
grant select on metadata_entry, metadata_place to millrace_ingress, millrace_reader, millrace_operator;
comment on column outbox.payload is 'the event as published, or its number of a dictionary and what zstd made of it by that';
