-- 0064 filled metadata_entry before its triggers were there: what owners committed while it ran had no entries, or those
-- of before a change. The entries are made whole while nobody writes the tables that they follow from.
lock table payment_intent, refund, payout in share row exclusive mode;
create temporary table wanted_entry on commit drop as
select 'payment_intent' as kind, t.merchant_id, e.key, e.value, t.created_at, t.id
from payment_intent t, json_each_text(t.metadata::json) e where t.metadata <> '{}'
union all
select 'refund', t.merchant_id, e.key, e.value, t.created_at, t.id
from refund t, json_each_text(t.metadata::json) e where t.metadata <> '{}'
union all
select 'payout', t.merchant_id, e.key, e.value, t.created_at, t.id
from payout t, json_each_text(t.metadata::json) e where t.metadata <> '{}';
analyze wanted_entry;
delete from metadata_entry m where not exists (
    select from wanted_entry w
    where w.kind = m.kind and w.merchant_id = m.merchant_id and w.key = m.key and w.value = m.value
      and w.created_at = m.created_at and w.id = m.id);
insert into metadata_entry (kind, merchant_id, key, value, created_at, id)
select kind, merchant_id, key, value, created_at, id from wanted_entry on conflict do nothing;
