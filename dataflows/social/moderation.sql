-- name: objects_read
-- What cases are about, whose it is, and whether it is gone, as all is from the erasure of its author on; what is there comes
-- first, a post before a medium, and both before a user. Primary keys.
select distinct on (id) id, kind, author_id, is_gone, version from (
    select t.id, 1 as place, 'post' as kind, p.author_id,
           p.state <> 'published' or a.state not in ('active', 'suspended') as is_gone, p.version
    from unnest(%s::text[]) as t (id) join post p on p.post_id = t.id join author a on a.user_id = p.author_id
    union all
    select t.id, 2, 'media', m.owner_id, m.scan_state = 'deleted' or a.state not in ('active', 'suspended'), m.version
    from unnest(%s::text[]) as t (id) join media m on m.media_id = t.id join author a on a.user_id = m.owner_id
    union all
    select t.id, 3, 'user', a.user_id, a.state not in ('active', 'suspended'), a.version
    from unnest(%s::text[]) as t (id) join author a on a.user_id = t.id) found
order by id, is_gone, place;

-- name: objects_of_rulings
-- The same of what those decisions are about. Primary keys.
with asked as (
    select distinct d.object_id as id, d.author_id from moderation_decision d
    where d.decision_id = any (%s::text[])
       or d.decision_id in (select p.decision_id from moderation_appeal p where p.appeal_id = any (%s::text[])))
select distinct on (id) id, kind, author_id, is_gone, version from (
    select t.id, 'post' as kind, p.author_id, p.state <> 'published' as is_gone, p.version
    from asked t join post p on p.post_id = t.id and p.author_id = t.author_id
    union all
    select t.id, 'media', m.owner_id, m.scan_state = 'deleted', m.version
    from asked t join media m on m.media_id = t.id and m.owner_id = t.author_id
    union all
    select t.id, 'user', a.user_id, a.state not in ('active', 'suspended'), a.version
    from asked t join author a on a.user_id = t.id and t.id = t.author_id) found
order by id;

-- name: posts_judged
-- The posts that are decided about, before they are read: an edit waits until that is committed, and is waited for. In
-- the order of ids, so that nobody waits in a circle. Primary key.
select p.post_id from post p where p.post_id = any (%s::text[]) order by p.post_id for share of p;

-- name: media_judged
-- The same of media. Primary key.
select m.media_id from media m where m.media_id = any (%s::text[]) order by m.media_id for share of m;

-- name: users_of_rulings
-- The same of what other decisions were about: users first, as authors_lock is. Primary keys.
select a.user_id from author a where a.user_id in (
    select d.object_id from moderation_decision d
    where d.decision_id = any (%s::text[])
       or d.decision_id in (select p.decision_id from moderation_appeal p where p.appeal_id = any (%s::text[])))
order by a.user_id for no key update of a;

-- name: posts_of_rulings
-- Primary keys.
select q.post_id from post q where q.post_id in (
    select d.object_id from moderation_decision d
    where d.decision_id = any (%s::text[])
       or d.decision_id in (select p.decision_id from moderation_appeal p where p.appeal_id = any (%s::text[])))
order by q.post_id for share of q;

-- name: media_of_rulings
-- Primary keys.
select m.media_id from media m where m.media_id in (
    select d.object_id from moderation_decision d
    where d.decision_id = any (%s::text[])
       or d.decision_id in (select p.decision_id from moderation_appeal p where p.appeal_id = any (%s::text[])))
order by m.media_id for share of m;

-- name: reportable_read
-- Which of these objects their reporter may see. Primary keys.
select distinct t.viewer, t.id from unnest(%s::text[], %s::text[]) as t (viewer, id)
where exists (select from social_authorize(array[t.viewer], array[t.id]))
   or exists (select from social_met(array[t.viewer], array[t.id]))
   or exists (select from media m, social_authorize(array[t.viewer], array[m.attached_post_id]) where m.media_id = t.id);

-- name: currents_read
-- The decisions in force. Primary key.
select object_id, effect, decision_id, epoch from moderation_current where object_id = any (%s::text[]);

-- name: cases_read
-- An erased user has no case any more. Primary keys.
select c.object_id, c.reports, c.priority, case when c.state = 'assigned' and gone.user_id is not null then 'open' else c.state end,
       case when gone.user_id is null then c.assignee end, c.version, c.opened_at, c.updated_at
from moderation_case c left join author gone on gone.user_id = c.assignee and gone.state in ('deleting', 'deleted')
where c.object_id = any (%s::text[]);

-- name: reports_read
-- Primary key.
select r.object_id, r.user_id, r.report_id, r.reason, r.comment, r.version, r.created_at
from moderation_report r join (select distinct * from unnest(%s::text[], %s::text[])) as t (object_id, user_id)
  using (object_id, user_id);

-- name: rulings_read
-- Decisions by their own ids, or by that of the appeal against them. Primary keys.
select d.decision_id, d.object_id, d.author_id, d.decision, d.reason, d.policy_version, d.label, d.expires_at, d.supersedes,
       d.moderator, d.version, d.created_at, d.object_version, coalesce(d.beside, false)
from moderation_decision d
where d.decision_id = any (%s::text[])
   or d.decision_id in (select p.decision_id from moderation_appeal p where p.appeal_id = any (%s::text[]));

-- name: appeals_read
-- Appeals by their own ids, or by the decision that they are against. Primary keys.
select appeal_id, decision_id, author_id, text, state, decided_by, version, created_at, updated_at
from moderation_appeal where decision_id = any (%s::text[]) or appeal_id = any (%s::text[]);

-- name: cases_of_rulings
-- What is in force of the objects of those decisions, and whose they are. Primary keys.
select c.object_id, c.effect, c.decision_id, c.epoch
from moderation_current c where c.object_id in (
    select d.object_id from moderation_decision d
    where d.decision_id = any (%s::text[])
       or d.decision_id in (select p.decision_id from moderation_appeal p where p.appeal_id = any (%s::text[])));

-- name: labels_read
-- Labels of objects, the first given first. Primary key.
select object_id, label, decision_id, policy_version, expires_at, version
from moderation_label where object_id = any (%s::text[]) order by object_id, version;

-- name: labels_of_rulings
-- Labels of the objects of those decisions. Primary keys.
select l.object_id, l.label, l.decision_id, l.policy_version, l.expires_at, l.version
from moderation_label l where l.object_id in (
    select d.object_id from moderation_decision d
    where d.decision_id = any (%s::text[])
       or d.decision_id in (select p.decision_id from moderation_appeal p where p.appeal_id = any (%s::text[])))
order by l.object_id, l.version;

-- name: labels_delete
-- Labels of objects about which was decided, whose present ones are written next. Primary key.
delete from moderation_label where object_id = any (%s::text[]);

-- name: labels_insert
-- What these have now; only their case's owner writes it.
insert into moderation_label (object_id, label, decision_id, policy_version, expires_at, ends_at, version)
select t.object_id, t.label, t.decision_id, t.policy_version, nullif(t.expires_at, ''),
       decision_ends_at(nullif(t.expires_at, '')), t.version
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bigint[])
    as t (object_id, label, decision_id, policy_version, expires_at, version);

-- name: currents_insert
-- The first decision about an object; one that is there fails the batch.
insert into moderation_current (object_id, effect, decision_id, epoch)
select * from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]);

-- name: currents_update
-- The next one, compared and set.
with written as (
    update moderation_current c
    set effect = t.effect, decision_id = t.decision_id, epoch = t.epoch
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
        as t (object_id, effect, decision_id, epoch, read_epoch)
    where c.object_id = t.object_id and c.epoch = t.read_epoch
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: cases_insert
-- The first report of an object; a case that is there fails the batch.
insert into moderation_case (object_id, reports, priority, state, assignee, version, opened_at, updated_at)
select t.object_id, t.reports, t.priority, t.state, nullif(t.assignee, ''), t.version, t.opened_at, t.updated_at
from unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
    as t (object_id, reports, priority, state, assignee, version, opened_at, updated_at);

-- name: cases_update
-- Compared and set.
with written as (
    update moderation_case c
    set reports = t.reports, priority = t.priority, state = t.state, assignee = nullif(t.assignee, ''), version = t.version,
        updated_at = t.updated_at
    from unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (object_id, reports, priority, state, assignee, version, updated_at, read_version)
    where c.object_id = t.object_id and c.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: reports_insert
-- The first report of a user about an object; another one fails the batch.
insert into moderation_report (object_id, user_id, report_id, reason, comment, version, created_at)
select t.object_id, t.user_id, t.report_id, t.reason, nullif(t.comment, ''), t.version, t.created_at
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[])
    as t (object_id, user_id, report_id, reason, comment, version, created_at);

-- name: reports_update
-- A report never changes.
select 1 / (count(*) = 0)::int from unnest(%s::text[], %s::bigint[]) as t (object_id, version) where %s = 0;

-- name: rulings_insert
-- Decisions; the unique (object, version) lets no two be the next one.
insert into moderation_decision (decision_id, object_id, author_id, decision, reason, policy_version, label, expires_at,
                                 supersedes, moderator, version, created_at, object_version, beside)
select t.decision_id, t.object_id, t.author_id, t.decision, t.reason, t.policy_version, nullif(t.label, ''),
       nullif(t.expires_at, ''), nullif(t.supersedes, ''), t.moderator, t.version, t.created_at,
       nullif(t.object_version, -1), t.beside
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::text[],
            %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::boolean[])
    as t (decision_id, object_id, author_id, decision, reason, policy_version, label, expires_at, supersedes, moderator,
          version, created_at, object_version, beside);

-- name: rulings_update
-- A decision never changes.
select 1 / (count(*) = 0)::int from unnest(%s::text[], %s::bigint[]) as t (decision_id, version) where %s = 0;

-- name: appeals_insert
-- One for each decision.
insert into moderation_appeal (appeal_id, decision_id, author_id, text, state, decided_by, version, created_at, updated_at)
select t.appeal_id, t.decision_id, t.author_id, t.text, t.state, nullif(t.decided_by, ''), t.version, t.created_at, t.updated_at
from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
    as t (appeal_id, decision_id, author_id, text, state, decided_by, version, created_at, updated_at);

-- name: appeals_update
-- Compared and set.
with written as (
    update moderation_appeal p
    set state = t.state, decided_by = nullif(t.decided_by, ''), version = t.version, updated_at = t.updated_at
    from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])
        as t (decision_id, state, decided_by, version, updated_at, read_version)
    where p.decision_id = t.decision_id and p.version = t.read_version
    returning 1)
select 1 / (count(*) = %s)::int from written;

-- name: propagation_insert
-- What a decision has to reach.
insert into moderation_propagation (decision_id, consumer, object_id, effect)
select t.decision_id, c.consumer, t.object_id, t.effect
from unnest(%s::text[], %s::text[], %s::text[]) as t (decision_id, object_id, effect)
cross join unnest(%s::text[]) as c (consumer);

-- name: authors_suspend
-- What a decision about a user does to it, whatever else its own partition does at the moment. Primary key.
update author a
set state = t.state, version = a.version + 1, updated_at = t.updated_at
from unnest(%s::text[], %s::text[], %s::bigint[]) as t (user_id, state, updated_at)
where a.user_id = t.user_id and a.state in ('active', 'suspended') and a.state <> t.state;
