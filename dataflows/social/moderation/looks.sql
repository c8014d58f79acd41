-- What the propagation worker asks.

-- name: propagation_waits
-- Whether anything has to be looked at now. Served by moderation_propagation_due and media_hidden_due.
select exists (select from moderation_propagation where state = 'pending' and next_at <= clock_timestamp())
    or exists (select from media_hidden where next_at <= clock_timestamp());

-- name: propagation_due
-- What has to be looked at now. Served by moderation_propagation_due.
select p.decision_id, p.consumer, p.object_id, p.effect, p.attempts,
       not exists (select from moderation_current c where c.object_id = p.object_id and c.decision_id = p.decision_id),
       d.author_id,
       extract(epoch from clock_timestamp() - coalesce(p.began_at, to_timestamp(d.created_at / 1000000.0)))::float8
from moderation_propagation p join moderation_decision d using (decision_id)
where p.state = 'pending' and p.next_at <= clock_timestamp()
order by p.next_at limit %(limit)s;

-- name: propagation_edges
-- Caches in front of the origin that a decision has to reach, too: those that have no row yet. Primary key.
insert into moderation_propagation (decision_id, consumer, object_id, effect)
select p.decision_id, e.edge, p.object_id, p.effect
from moderation_propagation p cross join unnest(%(edges)s::text[]) as e (edge)
where p.decision_id = %(decision_id)s and p.consumer = %(consumer)s
on conflict do nothing returning consumer;

-- name: propagation_seen
-- One look: nothing is left where it was, or when it is looked at again. Primary key.
update moderation_propagation
set attempts = attempts + 1, seen = nullif(%(seen)s, ''),
    state = case when %(seen)s = '' then 'verified' else 'pending' end,
    verified_at = case when %(seen)s = '' then clock_timestamp() end,
    next_at = clock_timestamp() + make_interval(secs => %(wait_s)s)
where decision_id = %(decision_id)s and consumer = %(consumer)s and state = 'pending';

-- name: hidden_due
-- What was hidden otherwise than by a decision, and has to be looked at now. Served by media_hidden_due.
select h.object_id, h.attempts, h.hidden_at::text, extract(epoch from clock_timestamp() - h.hidden_at)::float8
from media_hidden h where h.next_at <= clock_timestamp() order by h.next_at limit %(limit)s;

-- name: hidden_seen
-- Looked at again later, unless it was hidden anew meanwhile. Primary key.
update media_hidden set attempts = attempts + 1, seen = %(seen)s,
       next_at = clock_timestamp() + make_interval(secs => %(wait_s)s)
where object_id = %(object_id)s and hidden_at = %(hidden_at)s::timestamptz;

-- name: hidden_gone
-- Nothing is left of it anywhere. Primary key.
delete from media_hidden where object_id = %(object_id)s and hidden_at = %(hidden_at)s::timestamptz;

-- name: posts_of_object
-- The posts that a decision is about: one, that of a medium, or the newest of a user.
select p.post_id from post p where p.post_id = %(object_id)s
union all select m.attached_post_id from media m where m.media_id = %(object_id)s and m.attached_post_id is not null
union all (select p.post_id from post p where p.author_id = %(object_id)s and p.state = 'published'
           order by p.created_at desc limit %(limit)s);

-- name: posts_readable
-- Whom of a stranger and the author's followers these posts are shown to. Nobody, when they are removed.
select count(*) from social_authorize(
    (select array_agg(r.reader) from unnest(%(posts)s::text[]) as p (post_id) cross join (
        select ''::text as reader union all
        (select f.follower_id from follow f where f.followee_id = %(author_id)s and f.state = 'active' limit %(readers)s)) r),
    (select array_agg(p.post_id) from unnest(%(posts)s::text[]) as p (post_id) cross join (
        select ''::text as reader union all
        (select f.follower_id from follow f where f.followee_id = %(author_id)s and f.state = 'active' limit %(readers)s)) r)) s
where s.viewer <> %(author_id)s;

-- name: posts_found
-- Which of these posts a search of all users may give.
select count(*) from post p join author a on a.user_id = p.author_id
where p.post_id = any (%(posts)s::text[]) and p.state = 'published' and p.visibility = 'public' and not a.is_private
  and exists (select from social_authorize(array[''], array[p.post_id]))
  and not exists (select from moderation_current m
                  where m.object_id = any (array[p.post_id, p.author_id] || p.media_ids) and m.effect = 'limit');

-- name: notified_readable
-- Which notifications of these posts others may still read.
select count(*) from notification n
where n.post_id = any (%(posts)s::text[]) and n.user_id <> %(author_id)s and n.actor_id is not null
  and exists (select from social_authorize(array[n.user_id], array[n.post_id]));

-- name: media_of_object
-- The media that something hid, or a decision is about, as they are served now; those that ended by it, too.
select a.media_id, a.access_version, a.is_served, m.rendition_names
from media_access a join media m using (media_id)
where m.rendition_names <> '{}'
  and (a.media_id = %(object_id)s or a.attached_post_id = %(object_id)s or a.owner_id = %(object_id)s)
order by a.media_id limit %(limit)s;

-- name: decisions_over
-- Decisions in force whose time is over; what was taken before times were held to RFC 3339 comes last, and is looked at by who
-- asks. Served by moderation_current_ends and moderation_label_ends.
select d.decision_id, d.expires_at
from (select decision_id, ends_at from moderation_current where ends_at <= statement_timestamp()
      union
      select decision_id, ends_at from moderation_label where ends_at <= statement_timestamp()) c
join moderation_decision d using (decision_id) order by c.ends_at desc limit %(limit)s;
