-- name: authors_lock
-- Both users of every edge, before anything of them is read: whoever changes an edge of theirs waits. In the order of
-- ids, so that nobody waits in a circle; without the key, so that their new posts do not wait. Primary key.
select user_id from author where user_id = any (%s::text[]) order by user_id for no key update;

-- name: authors_read
-- The users of a batch. Primary key.
select user_id, display_name, state, is_private, followers, is_pulled, version, updated_at
from author where user_id = any (%s::text[]);

-- name: keys_read
-- Owners: keys of users, under which their texts travel and answers are stored. Primary key.
select k.user_id, k.key from author_key k where k.user_id = any (%s::text[]) and k.key is not null;

-- name: follows_read
-- Edges. Primary key.
select f.follower_id, f.followee_id, f.state, f.version, f.created_at, f.updated_at
from follow f join (select distinct * from unnest(%s::text[], %s::text[])) as t (a, b)
  on f.follower_id = t.a and f.followee_id = t.b;

-- name: blocks_read
-- Edges. Primary key.
select e.user_id, e.target_id, e.state, e.version, e.created_at, e.updated_at
from block e join (select distinct * from unnest(%s::text[], %s::text[])) as t (a, b)
  on e.user_id = t.a and e.target_id = t.b;

-- name: mutes_read
-- Edges. Primary key.
select e.user_id, e.target_id, e.state, e.version, e.created_at, e.updated_at
from mute e join (select distinct * from unnest(%s::text[], %s::text[])) as t (a, b)
  on e.user_id = t.a and e.target_id = t.b;

-- name: posts_read
-- The posts that a batch edits or deletes. Primary key.
select post_id, author_id, visibility, text, version, state, media_ids, reply_to, root_id, quote_of, is_pushed,
       created_at, edited_at
from post where post_id = any (%s::text[]);

-- name: posts_seen
-- Of the posts that a batch answers, quotes or reacts to, those that their reader may see, with all that another command of
-- the batch may change of it; and the reader's own that are deleted. Primary keys.
select t.viewer, p.post_id, p.author_id, p.root_id, p.state, p.visibility, a.is_private,
       exists (select from follow f where f.follower_id = t.viewer and f.followee_id = p.author_id and f.state = 'active'),
       exists (select from moderation_current m where m.object_id = p.post_id and m.effect = 'remove')
from (select distinct * from unnest(%s::text[], %s::text[]) as t (viewer, post_id)) t
join post p using (post_id) join author a on a.user_id = p.author_id
where (p.author_id = t.viewer and p.state = 'deleted')
   or exists (select from social_sees(t.viewer, p.post_id, p.author_id, p.visibility, p.state));

-- name: reactions_read
-- Likes and reposts of a batch. Primary key.
select r.kind, r.user_id, r.post_id, r.state, r.is_pushed, r.version, r.created_at, r.updated_at
from reaction r join (select distinct * from unnest(%s::text[], %s::text[], %s::text[])) as t (kind, user_id, post_id)
  on r.post_id = t.post_id and r.kind = t.kind and r.user_id = t.user_id;

-- name: authors_insert
-- A user exists from its first call on: the ingress makes it, no command does.
select 1 / (count(*) = 0)::int from unnest(%s::text[]) as t (user_id);

-- name: authors_update
-- Profiles, compared and set: a miss divides by zero, which fails the transaction.
with written as (
    update author a
    set display_name = t.display_name, state = t.state, is_private = t.is_private, version = t.version,
        updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::boolean[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (user_id, display_name, state, is_private, version, updated_at, read_version)
    where a.user_id = t.user_id and a.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: pairs_apart
-- Partitions of one round are decided apart, under the same locks: if two of them changed what is between the same two
-- users, neither knew of the other. Then this divides by zero, and the round is decided again, partition after partition.
select 1 / (count(*) = count(distinct (a, b)))::int from unnest(%s::text[], %s::text[]) as t (a, b);

-- name: followers_count
-- How many follow, by what became of their edges; a user of too many is pulled, and pushed again below half of that.
with changed as (
    select user_id, sum(added) as added from unnest(%s::text[], %s::bigint[]) as t (user_id, added) group by user_id)
update author a
set followers = a.followers + c.added,
    is_pulled = case when a.followers + c.added > %s::text::bigint then true
                     when a.followers + c.added < %s::text::bigint / 2 then false
                     else a.is_pulled end
from changed c where a.user_id = c.user_id and c.added <> 0;

-- name: posts_insert
-- New ones; an id that exists fails the batch.
insert into post (post_id, author_id, visibility, text, version, state, media_ids, reply_to, root_id, quote_of,
                  is_pushed, created_at, edited_at)
select post_id, author_id, visibility, text, version, state, string_to_array(media_ids, ','), nullif(reply_to, ''), root_id,
       nullif(quote_of, ''), is_pushed, created_at, nullif(edited_at, -1)
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[],
            %s::text[], %s::text[], %s::boolean[], %s::bigint[], %s::bigint[])
    as t (post_id, author_id, visibility, text, version, state, media_ids, reply_to, root_id, quote_of, is_pushed,
          created_at, edited_at);

-- name: posts_update
-- Edits and tombstones, compared and set.
with written as (
    update post p
    set visibility = t.visibility, text = t.text, version = t.version, state = t.state,
        media_ids = string_to_array(t.media_ids, ','), edited_at = nullif(t.edited_at, -1)
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
        as t (post_id, visibility, text, version, state, media_ids, edited_at, read_version)
    where p.post_id = t.post_id and p.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: versions_insert
-- What was current, for ever unless the post is deleted.
insert into post_version (post_id, version, text, media_ids, visibility, edited_at)
select post_id, version, text, string_to_array(media_ids, ','), visibility, edited_at
from unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::bigint[])
    as t (post_id, version, text, media_ids, visibility, edited_at);

-- name: versions_delete
-- The texts of deleted posts. Primary key.
delete from post_version where post_id = any (%s::text[]);

-- name: follows_insert
-- New edges.
insert into follow (follower_id, followee_id, state, version, created_at, updated_at)
select * from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[]);

-- name: follows_update
-- Changed edges, compared and set.
with written as (
    update follow f set state = t.state, version = t.version, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (user_id, target_id, state, version, updated_at, read_version)
    where f.follower_id = t.user_id and f.followee_id = t.target_id and f.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: blocks_insert
-- New edges.
insert into block (user_id, target_id, state, version, created_at, updated_at)
select * from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[]);

-- name: blocks_update
-- Changed edges, compared and set.
with written as (
    update block f set state = t.state, version = t.version, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (user_id, target_id, state, version, updated_at, read_version)
    where f.user_id = t.user_id and f.target_id = t.target_id and f.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: mutes_insert
-- New edges.
insert into mute (user_id, target_id, state, version, created_at, updated_at)
select * from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[]);

-- name: mutes_update
-- Changed edges, compared and set.
with written as (
    update mute f set state = t.state, version = t.version, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (user_id, target_id, state, version, updated_at, read_version)
    where f.user_id = t.user_id and f.target_id = t.target_id and f.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: reactions_insert
-- New likes and reposts.
insert into reaction (kind, user_id, post_id, state, is_pushed, version, created_at, updated_at)
select * from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::boolean[], %s::bigint[], %s::bigint[], %s::bigint[]);

-- name: reactions_update
-- Changed likes and reposts, compared and set.
with written as (
    update reaction r set state = t.state, is_pushed = t.is_pushed, version = t.version, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::boolean[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (kind, user_id, post_id, state, is_pushed, version, updated_at, read_version)
    where r.post_id = t.post_id and r.kind = t.kind and r.user_id = t.user_id and r.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: mentions_delete
-- What users were told of being mentioned in posts that name them no more, before anything is told: the same may be told
-- anew. Served by notification_mentions.
delete from notification n using unnest(%s::text[]) as edited (post_id)
where n.kind = 'mention' and n.post_id = edited.post_id
  and not exists (select from unnest(%s::text[], %s::text[]) as named (post_id, user_id)
                  where named.post_id = n.post_id and named.user_id = n.user_id);

-- name: notifications_insert
-- What users are told who are there, each once.
insert into notification (notification_id, user_id, kind, actor_id, post_id, created_at, decision_id)
select t.notification_id, t.user_id, t.kind, nullif(t.actor_id, ''), nullif(t.post_id, ''), t.created_at,
       nullif(t.decision_id, '')
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[])
    as t (notification_id, user_id, kind, actor_id, post_id, created_at, decision_id)
join author a on a.user_id = t.user_id and a.state not in ('deleting', 'deleted')
on conflict do nothing;
