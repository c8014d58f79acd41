-- GET /v1/payment_intents: newest first, after a place in that order. What is not wanted is passed over, so many at most.
-- Served by payment_intent_of_merchant.
select found.* from (
    select {{read PaymentIntent i}}, {{wanted PaymentIntent i}} as is_wanted,
           row_number() over (order by i.created_at desc, i.id desc) as passed
    from (
        select * from payment_intent
        where merchant_id = %(merchant)s {{listed PaymentIntent payment_intent}}
          and (created_at, id) >= (timestamptz 'epoch' + %(from_at)s::bigint * interval '1 microsecond', %(from_id)s::text)
          and (created_at, id) < (timestamptz 'epoch' + %(before_at)s::bigint * interval '1 microsecond', %(before_id)s::text)
        order by merchant_id desc, created_at desc, id desc
        limit %(passed_max)s
    ) i
) found
where is_wanted or passed = %(passed_max)s
limit %(limit)s
