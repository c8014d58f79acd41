-- Who blocks these users, and whom they block: so many of each. Primary key and block_of_target.
select a.user_id, b.other from unnest(%(users)s::text[]) as a (user_id)
cross join lateral (
    (select o.target_id as other from block o where o.user_id = a.user_id and o.state = 'active' limit %(count)s::int)
    union all
    (select o.user_id from block o where o.target_id = a.user_id and o.state = 'active' limit %(count)s::int)) as b
