-- GET /v1/disputes: as intents_of_merchant. Served by dispute_of_merchant.
select found.* from (
    select {{shown Dispute d}}, {{wanted Dispute d}} as is_wanted,
           row_number() over (order by d.created_at desc, d.id desc) as passed
    from (
        select * from dispute
        where merchant_id = %(merchant)s
          and (created_at, id) >= (timestamptz 'epoch' + %(from_at)s::bigint * interval '1 microsecond', %(from_id)s::text)
          and (created_at, id) < (timestamptz 'epoch' + %(before_at)s::bigint * interval '1 microsecond', %(before_id)s::text)
        order by merchant_id desc, created_at desc, id desc
        limit %(passed_max)s
    ) d
) found
where is_wanted or passed = %(passed_max)s
limit %(limit)s
