-- GET /v1/payouts?metadata[key]=: as payouts_of_merchant, of those with one value; further ones are among what is wanted.
-- Served by metadata_place_in_order. What a digest leads to is compared outside, or the planner would believe that it is rare.
select found.* from (
    select {{read Payout p}}, {{wanted Payout p}}
           and p.merchant_id = %(merchant)s and p.metadata::json ->> %(key)s::text = %(value)s::text as is_wanted,
           row_number() over (order by p.entered_at desc, p.entered_id desc) as passed
    from (
        select payout.*, m.created_at as entered_at, m.id as entered_id
        from metadata_place m join payout on payout.id = m.id
        where m.digest = metadata_digest('payout', %(merchant)s, %(key)s, %(value)s)
          and (m.created_at, m.id) >= (timestamptz 'epoch' + %(from_at)s::bigint * interval '1 microsecond', %(from_id)s::text)
          and (m.created_at, m.id) < (timestamptz 'epoch' + %(before_at)s::bigint * interval '1 microsecond', %(before_id)s::text)
        order by m.created_at desc, m.id desc
        limit %(passed_max)s
    ) p
) found
where is_wanted or passed = %(passed_max)s
limit %(limit)s
