-- What the eraser does. Each step is repeated until it finds nothing; what it took away is counted in its transaction.
-- Every statement asks for a user on its way out: it can take nothing away from anybody else.

-- name: erasures_running
-- The next ones behind a place: those that cannot be proved keep nobody waiting. Served by erasure_running.
select e.user_id, e.erasure_id,
       extract(epoch from clock_timestamp() - coalesce(e.began_at, to_timestamp(e.created_at / 1000000.0)))::float8, e.created_at
from erasure e join author a using (user_id)
where e.state = 'running' and a.state = 'deleting' and (e.created_at, e.user_id) > (%(at)s::bigint, %(after)s::text)
order by e.created_at, e.user_id limit %(limit)s;

-- name: erased
-- The next users behind one who are erased, or are on their way out. Primary key.
select user_id from erasure where user_id > %(after)s order by user_id limit %(limit)s;

-- name: erase_again
-- Erased users whom a database has again that was put back from before: hidden with this statement, as the owner hides who
-- erases itself; the owner may stand still for as long as it takes to say how it goes on. Primary key.
with back as (
    update author set state = 'deleting', display_name = '', version = version + 1, updated_at = %(now)s
    where user_id = any (%(users)s::text[]) and state not in ('deleting', 'deleted') returning user_id)
insert into erasure (user_id, erasure_id, state, version, created_at, updated_at)
select user_id, 'er_' || replace(gen_random_uuid()::text, '-', ''), 'running', 1, %(now)s, %(now)s from back;

-- name: take_posts
-- Posts become tombstones, and their versions go. Served by post_of_author.
with chosen as (
    select p.post_id from post p join author a on a.user_id = p.author_id and a.state = 'deleting'
    where p.author_id = %(user_id)s and p.state = 'published' order by p.post_id limit %(limit)s for update of p),
gone as (
    update post p set state = 'deleted', text = '', media_ids = '{}', version = p.version + 1, edited_at = %(now)s
    from chosen c where c.post_id = p.post_id returning p.post_id),
versions as (delete from post_version v using gone g where v.post_id = g.post_id returning 1),
counted as (update erasure set posts = posts + (select count(*) from gone) where user_id = %(user_id)s returning 1)
select count(*) from gone;

-- name: take_media
-- Media end; their bytes are taken away after this commit. Served by media_of_erased.
with chosen as (
    select m.media_id from media m join author a on a.user_id = m.owner_id and a.state = 'deleting'
    where m.owner_id = %(user_id)s and m.scan_state not in ('checksum_failed', 'infected', 'rejected', 'expired', 'deleted')
    order by m.media_id limit %(limit)s for update of m),
gone as (
    update media m set scan_state = 'deleted', manifest = null, access_version = m.access_version + 1,
                       version = m.version + 1, updated_at = %(now)s
    from chosen c where c.media_id = m.media_id returning m.media_id),
counted as (update erasure set media = media + (select count(*) from gone) where user_id = %(user_id)s returning 1)
select count(*) from gone;

-- name: follows_lock
-- The next users that edges are to, and the user itself, in the order of ids, as owners take them (authors_lock). Nobody but
-- the user where there is no edge any more. Primary key, follow_followers and follow_requests.
select a.user_id from author a
where a.user_id in (
    (select f.followee_id from follow f where f.follower_id = %(user_id)s and f.state <> 'removed'
     order by f.followee_id limit %(limit)s)
    union
    (select f.follower_id from follow f where f.followee_id = %(user_id)s and f.state = 'active'
     order by f.follower_id limit %(limit)s)
    union
    (select f.follower_id from follow f where f.followee_id = %(user_id)s and f.state = 'requested'
     order by f.updated_at limit %(limit)s)
    union select %(user_id)s)
order by a.user_id for no key update;

-- name: take_follows
-- Edges with these end on both sides, and nobody counts the user as a follower any more. Primary key.
with before as (
    select f.follower_id, f.followee_id, f.state from follow f join author a on a.user_id = %(user_id)s and a.state = 'deleting'
    where f.follower_id = %(user_id)s and f.followee_id = any (%(others)s::text[]) and f.state <> 'removed'
    union all
    select f.follower_id, f.followee_id, f.state from follow f join author a on a.user_id = %(user_id)s and a.state = 'deleting'
    where f.followee_id = %(user_id)s and f.follower_id = any (%(others)s::text[]) and f.state <> 'removed'),
gone as (
    update follow f set state = 'removed', version = f.version + 1, updated_at = %(now)s
    from before b where b.follower_id = f.follower_id and b.followee_id = f.followee_id returning 1),
fewer as (
    select b.followee_id as user_id, count(*) as gone from before b where b.state = 'active' group by b.followee_id),
others as (update author a set followers = a.followers - c.gone from fewer c where a.user_id = c.user_id returning 1),
counted as (update erasure set edges = edges + (select count(*) from gone) where user_id = %(user_id)s returning 1)
select count(*) from gone;

-- name: take_blocks
-- Those that the user made; others keep theirs. Primary key.
with chosen as (
    select b.target_id from block b join author a on a.user_id = %(user_id)s and a.state = 'deleting'
    where b.user_id = %(user_id)s and b.state = 'active' order by b.target_id limit %(limit)s for update of b),
gone as (
    update block b set state = 'removed', version = b.version + 1, updated_at = %(now)s
    from chosen c where b.user_id = %(user_id)s and b.target_id = c.target_id returning 1),
counted as (update erasure set edges = edges + (select count(*) from gone) where user_id = %(user_id)s returning 1)
select count(*) from gone;

-- name: take_mutes
-- And its mutes. Primary key.
with chosen as (
    select b.target_id from mute b join author a on a.user_id = %(user_id)s and a.state = 'deleting'
    where b.user_id = %(user_id)s and b.state = 'active' order by b.target_id limit %(limit)s for update of b),
gone as (
    update mute b set state = 'removed', version = b.version + 1, updated_at = %(now)s
    from chosen c where b.user_id = %(user_id)s and b.target_id = c.target_id returning 1),
counted as (update erasure set edges = edges + (select count(*) from gone) where user_id = %(user_id)s returning 1)
select count(*) from gone;

-- name: take_reactions
-- Likes and reposts. Served by reaction_of_user.
with chosen as (
    select r.post_id, r.kind from reaction r join author a on a.user_id = r.user_id and a.state = 'deleting'
    where r.user_id = %(user_id)s and r.state = 'active' order by r.post_id, r.kind limit %(limit)s for update of r),
gone as (
    update reaction r set state = 'removed', version = r.version + 1, updated_at = %(now)s
    from chosen c where r.post_id = c.post_id and r.kind = c.kind and r.user_id = %(user_id)s returning 1),
counted as (update erasure set edges = edges + (select count(*) from gone) where user_id = %(user_id)s returning 1)
select count(*) from gone;

-- name: take_notifications
-- What the user was told, and what others were told of it. Served by notification_of_user and notification_of_actor.
with chosen as (
    (select n.notification_id from notification n where n.user_id = %(user_id)s order by n.created_at limit %(limit)s)
    union
    (select n.notification_id from notification n where n.actor_id = %(user_id)s limit %(limit)s)),
gone as (
    delete from notification n using chosen c, author a
    where a.user_id = %(user_id)s and a.state = 'deleting' and n.notification_id = c.notification_id returning 1)
select count(*) from gone;

-- name: take_reports
-- What the user said as a reporter stays as a number; who said it, and how, goes. Served by moderation_report_of_user.
with chosen as (
    select r.object_id from moderation_report r join author a on a.user_id = %(user_id)s and a.state = 'deleting'
    where r.user_id = %(user_id)s order by r.object_id limit %(limit)s for update of r),
gone as (
    update moderation_report r set user_id = 'erased:' || r.report_id, comment = null
    from chosen c where r.user_id = %(user_id)s and r.object_id = c.object_id returning 1)
select count(*) from gone;

-- name: take_appeals
-- What it wrote against decisions. Served by moderation_appeal_of_author_newest.
with chosen as (
    select p.decision_id from moderation_appeal p join author a on a.user_id = %(user_id)s and a.state = 'deleting'
    where p.author_id = %(user_id)s and p.text <> '' order by p.decision_id limit %(limit)s for update of p),
gone as (
    update moderation_appeal p set text = '' from chosen c where p.decision_id = c.decision_id returning 1)
select count(*) from gone;

-- name: take_exports
-- That it asked for copies. Served by export_of_user.
with chosen as (
    select e.export_id from export e join author a on a.user_id = %(user_id)s and a.state = 'deleting'
    where e.user_id = %(user_id)s limit %(limit)s),
gone as (delete from export e using chosen c where e.export_id = c.export_id returning 1)
select count(*) from gone;

-- name: take_answers
-- Stored answers of the user's calls, which have its texts: it makes no call any more. Primary key.
with chosen as (
    select i.merchant_id, i.key from idempotency i join author a on a.user_id = %(user_id)s and a.state = 'deleting'
    where i.merchant_id = 'user:' || %(user_id)s and length(i.response) > %(stub)s and i.operation <> 'erase_user' limit %(limit)s),
gone as (
    update idempotency i set response = '{"result":{"version":0},"event":null}'::bytea, request_hash = decode(repeat('00', 32), 'hex')
    from chosen c where i.merchant_id = c.merchant_id and i.key = c.key returning 1)
select count(*) from gone;

-- name: take_usage
-- What quotas counted of the user's calls. Served by limit_usage_of_users and the primary keys.
with chosen as (
    select u.key_digest from limit_usage u join author a on a.user_id = %(user_id)s and a.state = 'deleting'
    where split_part(u.limit_key, ':', 1) = 'user%%3A' || %(user_id)s and u.limit_key >= 'user%%3A' and u.limit_key < 'user%%3B'
    limit %(limit)s),
shadows as (delete from limit_usage_shadow s using chosen c where s.key_digest = c.key_digest),
gone as (delete from limit_usage u using chosen c where u.key_digest = c.key_digest returning 1)
select count(*) from gone;

-- name: waiting_settled
-- What fan-out may still have been putting off when the erasure began is there now; what comes later leaves the user out.
select fanout_waiting_settled();

-- name: take_waiting
-- The user in what fan-out put off: whose turn it is, who is followed, whose homes. All of that table is read: it is small.
with deleting as (select a.user_id from author a where a.user_id = %(user_id)s and a.state = 'deleting'),
gone as (
    delete from fanout_waiting w using deleting d where d.user_id in (w.user_id, w.target_id) returning 1),
cut as (
    update fanout_waiting w set homes = array_remove(w.homes, d.user_id) from deleting d
    where d.user_id = any (w.homes) and d.user_id not in (w.user_id, w.target_id) returning 1)
select (select count(*) from gone) + (select count(*) from cut);

-- name: take_key
-- What opens the user's texts in Kafka, in answers, in what is parked, and in copies of them. Nobody makes another. Primary key.
with gone as (
    insert into author_key as k (user_id, key) select a.user_id, null from author a
    where a.user_id = %(user_id)s and a.state = 'deleting'
    on conflict (user_id) do update set key = null where k.key is not null returning 1)
select count(*) from gone;

-- name: scans_left
-- Scans that may still write: until their leases end, seconds after their media did. Served by media_of_owner and primary key.
select count(*) from media m join media_scan s using (media_id)
where m.owner_id = %(user_id)s and s.leased_until > clock_timestamp();

-- name: media_of_user
-- The next media that the user ever had, and the names of their renditions. Served by media_of_owner.
select media_id, sha256, rendition_names from media where owner_id = %(user_id)s and media_id > %(after)s order by media_id limit %(media)s;

-- name: media_urls
-- And the newest version and the names that their renditions had at the origin. Served by media_of_owner.
select m.media_id, m.sha256, a.access_version, m.rendition_names
from (select media_id from media where owner_id = %(user_id)s and media_id > %(after)s order by media_id limit %(media)s) chosen
join media m using (media_id) join media_access a using (media_id)
order by m.media_id;

-- name: left_over
-- What can still be reached of a user, by any way that shows posts, people or texts; "" is anybody. Each part of it by an
-- index of what is the user's: however much there is of others, it is looked for in time.
with own as materialized (
    select p.post_id, p.text, p.state from post p where p.author_id = %(user_id)s and p.state = 'published'
    union all
    select p.post_id, p.text, p.state from post p where p.author_id = %(user_id)s and p.state = 'deleted')
select (select count(*) from own p where p.text <> '' or p.state <> 'deleted')
     + (select count(*) from own p join post_version v using (post_id))
     + (select count(*) from own p, social_authorize(array['', %(user_id)s], array[p.post_id, p.post_id]) s)
     + (select count(*) from media_access m where m.owner_id = %(user_id)s and m.is_served)
     + (select count(*) from media m join media_scan s using (media_id)  -- a scan that may still write
        where m.owner_id = %(user_id)s and s.leased_until > clock_timestamp())
     + (select count(*) from follow f where f.follower_id = %(user_id)s and f.state <> 'removed')
     + (select count(*) from follow f where f.followee_id = %(user_id)s and f.state = 'active')
     + (select count(*) from follow f where f.followee_id = %(user_id)s and f.state = 'requested')
     + (select count(*) from reaction r where r.user_id = %(user_id)s and r.state = 'active')
     + (select count(*) from notification n where n.user_id = %(user_id)s)
     + (select count(*) from notification n where n.actor_id = %(user_id)s)
     + (select count(*) from moderation_report r where r.user_id = %(user_id)s)
     + (select count(*) from moderation_appeal p where p.author_id = %(user_id)s and p.text <> '')
     + (select count(*) from fanout_waiting w where %(user_id)s = any (w.homes || w.user_id || w.target_id))  -- small
     + (select count(*) from author_key k where k.user_id = %(user_id)s and k.key is not null)
     + (select count(*) from export e where e.user_id = %(user_id)s)
     + (select count(*) from idempotency i where i.merchant_id = 'user:' || %(user_id)s and length(i.response) > %(stub)s
          and i.operation <> 'erase_user')
     + (select count(*) from author a where a.user_id = %(user_id)s and (a.state <> 'deleting' or a.display_name <> '')),
       e.posts, e.media, e.edges
from erasure e where e.user_id = %(user_id)s;
