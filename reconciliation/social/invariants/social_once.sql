-- id: social_once
-- title: Every post comes from one committed command, and every version of it from another
-- severity: critical
-- owner: social
-- source: postgres
with made as (
    select merchant_id as scope, count(*) filter (where operation = 'publish_post') as published, count(*) as written
    from idempotency
    where topic = 'commands.social.v1' and status = 'committed'
      and operation in ('publish_post', 'edit_post', 'delete_post')
    group by merchant_id),
kept as (select author_id, count(*) as posts, sum(version) as versions from post group by author_id)
select a.user_id as object, a.state as detail, coalesce(m.published, 0) as published, coalesce(k.posts, 0) as posts,
       coalesce(m.written, 0) as written, coalesce(k.versions, 0) as versions
from author a
left join made m on m.scope = 'user:' || a.user_id
left join kept k on k.author_id = a.user_id
where a.state in ('active', 'suspended')
  and (coalesce(m.published, 0) <> coalesce(k.posts, 0) or coalesce(m.written, 0) <> coalesce(k.versions, 0))
