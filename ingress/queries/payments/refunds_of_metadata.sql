-- GET /v1/refunds?metadata[key]=: as refunds_of_merchant, of those with one value; further ones are among what is wanted.
-- Served by metadata_place_in_order. What a digest leads to is compared outside, or the planner would believe that it is rare.
select found.* from (
    select {{read Refund r}}, {{wanted Refund r}}
           and r.merchant_id = %(merchant)s and r.metadata::json ->> %(key)s::text = %(value)s::text as is_wanted,
           row_number() over (order by r.entered_at desc, r.entered_id desc) as passed
    from (
        select refund.*, m.created_at as entered_at, m.id as entered_id
        from metadata_place m join refund on refund.id = m.id
        where m.digest = metadata_digest('refund', %(merchant)s, %(key)s, %(value)s)
          and (m.created_at, m.id) >= (timestamptz 'epoch' + %(from_at)s::bigint * interval '1 microsecond', %(from_id)s::text)
          and (m.created_at, m.id) < (timestamptz 'epoch' + %(before_at)s::bigint * interval '1 microsecond', %(before_id)s::text)
        order by m.created_at desc, m.id desc
        limit %(passed_max)s
    ) r
) found
where is_wanted or passed = %(passed_max)s
limit %(limit)s
