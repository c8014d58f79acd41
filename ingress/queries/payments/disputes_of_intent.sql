-- GET /v1/disputes?payment_intent=: those of one payment, if it is the caller's. Served by dispute_of_intent.
select id, intent_id, merchant_id, processor, provider_ref, amount, currency, fee, reason, state, funds, version,
       (extract(epoch from created_at) * 1000000)::bigint as created_at,
       (extract(epoch from updated_at) * 1000000)::bigint as updated_at,
       null as evidence, evidence_state  -- what the merchant says is for its bank alone
from dispute
where intent_id = %(payment_intent)s and merchant_id = %(merchant)s
  and (created_at, id) < (timestamptz 'epoch' + %(created_at)s::bigint * interval '1 microsecond', %(id)s::text)
order by intent_id desc, created_at desc, id desc
limit %(limit)s
