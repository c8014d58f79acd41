-- The next posts of a home below a place: those that fan-out wrote (given), one's own, and those that are pulled. Each is
-- shown when the viewer may see it and there still is a reason for it: its author, or who reposts it, is followed and not
-- muted. First of each row, whether the viewer itself is there. What is older than ``since`` has no place among so many: the
-- given ones take it. A repost stands where its post does; one that is deleted takes a place, and is not shown. Served by
-- post_of_author, post_pulled and reaction_reposted. Whom the viewer mutes and follows is walked once (materialized), and
-- looked up in memory for each place: asked again for each, it was a fifth of the statement's time. offset 0 keeps what is said of
-- a place from being reckoned again wherever it is used.
with muted as materialized (
    select m.target_id from mute m where m.user_id = %(viewer)s::text and m.state = 'active'),
followed as materialized (
    select f.followee_id, f.followee_id not in (select target_id from muted) as is_heard
    from follow f where f.follower_id = %(viewer)s::text and f.state = 'active'),
candidates as (
    select at, post_id from (
        select t.at, t.post_id from unnest(%(times)s::bigint[], %(ids)s::text[]) as t (at, post_id)
        union
        (select c.created_at, c.post_id from post c
         where c.author_id = %(viewer)s::text and c.state = 'published'
           and (c.created_at, c.post_id) < (%(at)s::bigint, %(id)s::text) and c.created_at >= %(since)s::bigint
         order by c.created_at desc, c.post_id desc limit %(count)s::int)
        union
        (select c.created_at, c.post_id from followed f
         cross join lateral (
             select o.created_at, o.post_id from post o
             where o.author_id = f.followee_id and o.state = 'published' and not o.is_pushed
               and (o.created_at, o.post_id) < (%(at)s::bigint, %(id)s::text) and o.created_at >= %(since)s::bigint
             order by o.created_at desc, o.post_id desc limit %(count)s::int) c
         where f.is_heard
         order by c.created_at desc, c.post_id desc limit %(count)s::int)
        union
        -- distinct: what many of them repost takes one place
        (select distinct c.post_at, c.post_id from followed f
         cross join lateral (
             select r.post_at, r.post_id from reaction r
             where r.user_id = f.followee_id and r.kind = 'repost' and r.state = 'active' and not r.is_pushed
               and (r.post_at, r.post_id) < (%(at)s::bigint, %(id)s::text) and r.post_at >= %(since)s::bigint
             order by r.post_at desc, r.post_id desc limit %(count)s::int) c
         where f.is_heard
         order by c.post_at desc, c.post_id desc limit %(count)s::int)) as found
    order by at desc, post_id desc limit %(count)s::int)
select (select a.state from author a where a.user_id = %(viewer)s::text), p.at,
       (p.is_own or p.is_followed or p.reposter is not null) and (p.is_own or not p.is_muted)
       and exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state)),
       p.reposter,
       (select json_agg(json_build_array(l.label, l.policy_version, l.expires_at, l.decision_id) order by l.version desc)
        from moderation_label l where l.object_id = p.post_id) as labels,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from (select p.*, case when not (p.is_own or p.is_followed) then social_reposter(%(viewer)s::text, p.post_id) end as reposter
      from (select c.at, p.*, p.author_id = %(viewer)s::text as is_own,
                   p.author_id in (select followee_id from followed) as is_followed,
                   p.author_id in (select target_id from muted) as is_muted
            from candidates c join post p using (post_id) offset 0) as p offset 0) as p
order by p.at desc, p.post_id desc
