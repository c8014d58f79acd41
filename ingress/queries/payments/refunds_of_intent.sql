-- GET /v1/refunds?payment_intent=: those of one payment, if it is the caller's. Served by refund_of_intent.
select found.* from (
    select {{read Refund r}}, {{wanted Refund r}} as is_wanted,
           row_number() over (order by r.created_at desc, r.id desc) as passed
    from (
        select * from refund
        where intent_id = %(payment_intent)s and merchant_id = %(merchant)s
          and (created_at, id) >= (timestamptz 'epoch' + %(from_at)s::bigint * interval '1 microsecond', %(from_id)s::text)
          and (created_at, id) < (timestamptz 'epoch' + %(before_at)s::bigint * interval '1 microsecond', %(before_id)s::text)
        order by intent_id desc, created_at desc, id desc
        limit %(passed_max)s
    ) r
) found
where is_wanted or passed = %(passed_max)s
limit %(limit)s
