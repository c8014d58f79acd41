-- GET /v1/payment_intents?metadata[key]=: as intents_of_merchant, of those with one value; further ones are among what is wanted.
-- Served by metadata_place_in_order. What a digest leads to is compared outside, or the planner would believe that it is rare.
select found.* from (
    select {{read PaymentIntent i}}, {{wanted PaymentIntent i}}
           and i.merchant_id = %(merchant)s and i.metadata::json ->> %(key)s::text = %(value)s::text as is_wanted,
           row_number() over (order by i.entered_at desc, i.entered_id desc) as passed
    from (
        select payment_intent.*, m.created_at as entered_at, m.id as entered_id
        from metadata_place m join payment_intent on payment_intent.id = m.id
        where m.digest = metadata_digest('payment_intent', %(merchant)s, %(key)s, %(value)s)
          and (m.created_at, m.id) >= (timestamptz 'epoch' + %(from_at)s::bigint * interval '1 microsecond', %(from_id)s::text)
          and (m.created_at, m.id) < (timestamptz 'epoch' + %(before_at)s::bigint * interval '1 microsecond', %(before_id)s::text)
        order by m.created_at desc, m.id desc
        limit %(passed_max)s
    ) i
) found
where is_wanted or passed = %(passed_max)s
limit %(limit)s
