-- What merchants wrote on their payments, refunds and payouts, in the order of their lists: a list by a key and its value reads its
-- page from here, however many have that value. Its rows follow from those tables alone, in the same transaction. State and
-- amount have no index on purpose: a payment's updates touch none (0001), and a page passes over a bounded number of rows.
create table metadata_entry (
    kind        text collate "C" not null,  -- the table that it is of
    merchant_id text collate "C" not null,
    key         text collate "C" not null,
    value       text collate "C" not null,
    created_at  timestamptz not null,
    id          text collate "C" not null,
    primary key (kind, merchant_id, key, value, created_at, id)
);
insert into metadata_entry
select 'payment_intent', t.merchant_id, e.key, e.value, t.created_at, t.id
from payment_intent t, json_each_text(t.metadata::json) e where t.metadata <> '{}'
union all
select 'refund', t.merchant_id, e.key, e.value, t.created_at, t.id
from refund t, json_each_text(t.metadata::json) e where t.metadata <> '{}'
union all
select 'payout', t.merchant_id, e.key, e.value, t.created_at, t.id
from payout t, json_each_text(t.metadata::json) e where t.metadata <> '{}';

-- Definer: owners write the tables that these rows follow from, and not these rows.
create function metadata_entries_follow() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
    if tg_op = 'UPDATE' then
        delete from metadata_entry m using json_each_text(old.metadata::json) e
        where m.kind = tg_table_name and m.merchant_id = old.merchant_id and m.key = e.key and m.value = e.value
          and m.created_at = old.created_at and m.id = old.id;
    end if;
    insert into metadata_entry (kind, merchant_id, key, value, created_at, id)
    select tg_table_name, new.merchant_id, e.key, e.value, new.created_at, new.id
    from json_each_text(new.metadata::json) e;
    return null;
end $$;
create trigger payment_intent_metadata after insert on payment_intent
    for each row when (new.metadata <> '{}') execute function metadata_entries_follow();
create trigger payment_intent_metadata_changed after update of metadata on payment_intent
    for each row when (old.metadata <> new.metadata) execute function metadata_entries_follow();
create trigger refund_metadata after insert on refund
    for each row when (new.metadata <> '{}') execute function metadata_entries_follow();
create trigger payout_metadata after insert on payout
    for each row when (new.metadata <> '{}') execute function metadata_entries_follow();
grant select on metadata_entry to millrace_ingress, millrace_reader, millrace_operator;
