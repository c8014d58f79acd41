-- With a call of a merchant that this process has not asked for lately, many merchants at once: what they require and
-- their active keys. Primary key, and merchant_signing_key_age.
select w.n, coalesce(r.requirement, 'optional'), k.id, k.public_key
from unnest(%(ns)s::int[], %(merchants)s::text[]) as w (n, merchant_id)
left join merchant_signature_requirement r on r.merchant_id = w.merchant_id
left join merchant_signing_key k on k.merchant_id = w.merchant_id and k.revoked_at is null
