-- GET /v1/refunds?metadata[key]=: as refunds_of_merchant, of those with one value; further ones are among what is wanted.
-- Served by the primary key of metadata_entry.
select found.* from (
    select {{read Refund r}}, {{wanted Refund r}} as is_wanted,
           row_number() over (order by r.entered_at desc, r.entered_id desc) as passed
    from (
        select refund.*, m.created_at as entered_at, m.id as entered_id
        from metadata_entry m join refund on refund.id = m.id
        where m.kind = 'refund' and m.merchant_id = %(merchant)s and m.key = %(key)s and m.value = %(value)s
          and (m.created_at, m.id) >= (timestamptz 'epoch' + %(from_at)s::bigint * interval '1 microsecond', %(from_id)s::text)
          and (m.created_at, m.id) < (timestamptz 'epoch' + %(before_at)s::bigint * interval '1 microsecond', %(before_id)s::text)
        order by m.kind desc, m.merchant_id desc, m.key desc, m.value desc, m.created_at desc, m.id desc
        limit %(passed_max)s
    ) r
) found
where is_wanted or passed = %(passed_max)s
limit %(limit)s
