-- id: 11
-- title: The events of every aggregate are its versions 1, 2, 3 ... up to the current one
-- severity: critical
-- owner: owner
-- source: postgres
select aggregate_key, i.version as current_version, o.events, o.versions, o.first, o.last
from (
    select id as aggregate_key, version from payment_intent
    union all
    select id, 1 from journal_entry
    union all
    select id, version from merchant_account
) i
full join (
    select aggregate_key, count(*) as events, count(distinct version) as versions, min(version) as first, max(version) as last
    from outbox where topic = %(events_topic)s group by aggregate_key
) o using (aggregate_key)
where i.version is distinct from o.last or o.first <> 1 or o.events <> o.last or o.versions <> o.last
