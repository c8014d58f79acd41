-- Social posts: users, posts with their versions, edges. The owner of a user's partition writes what the user does;
-- rows of two users (edges, counts of followers) are written under locks of both rows of author, in the order of ids.

-- A user, from its first call on. What is not active is nobody's to see.
create table author (
    user_id      text collate "C" primary key,
    display_name text not null default '',
    state        text collate "C" not null default 'active'
                 check (state in ('active', 'suspended', 'deleting', 'deleted')),
    is_private   boolean not null default false,
    followers    bigint not null default 0 check (followers >= 0),
    is_pulled    boolean not null default false,  -- readers pull its next posts, as it has too many followers
    version      bigint not null default 1,
    created_at   bigint not null default (extract(epoch from clock_timestamp()) * 1000000)::bigint,
    updated_at   bigint not null default (extract(epoch from clock_timestamp()) * 1000000)::bigint
);

-- The words of a text, any case: what is between letters, digits and underscores is between words.
create function social_words(said text) returns tsvector language sql immutable parallel safe
return to_tsvector('simple', regexp_replace(said, '[^[:alnum:]]+', ' ', 'g'));

-- The current version; a deleted one is a tombstone without a text.
create table post (
    post_id    text collate "C" primary key,
    author_id  text collate "C" not null references author,
    visibility text collate "C" not null check (visibility in ('public', 'followers', 'private')),
    text       text not null,
    version    bigint not null check (version >= 1),
    state      text collate "C" not null check (state in ('published', 'deleted')),
    media_ids  text[] collate "C" not null default '{}',
    reply_to   text collate "C",
    root_id    text collate "C" not null,  -- its own, when it answers none
    quote_of   text collate "C",
    is_pushed  boolean not null,           -- fan-out writes it into homes; else readers pull it
    created_at bigint not null,
    edited_at  bigint,
    constraint post_tombstone check (state = 'published' or (text = '' and media_ids = '{}'))
);
create index post_of_author on post (author_id, created_at, post_id) where state = 'published';
create index post_pulled on post (author_id, created_at, post_id) where state = 'published' and not is_pushed;
create index post_public on post (created_at, post_id) where state = 'published' and visibility = 'public';
create index post_of_thread on post (root_id, created_at, post_id);
create index post_replies on post (reply_to) where reply_to is not null and state = 'published';
create index post_words on post using gin (social_words(text)) where state = 'published';

-- Every version that was ever current, gapless from 1; none of a deleted post.
create table post_version (
    post_id    text collate "C" not null references post,
    version    bigint not null check (version >= 1),
    text       text not null,
    media_ids  text[] collate "C" not null,
    visibility text collate "C" not null,
    edited_at  bigint not null,
    primary key (post_id, version)
);

-- Edges. They are never deleted, so that their versions only rise.
create table follow (
    follower_id text collate "C" not null,
    followee_id text collate "C" not null check (followee_id <> follower_id),
    state       text collate "C" not null check (state in ('requested', 'active', 'removed')),
    version     bigint not null check (version >= 1),
    created_at  bigint not null,
    updated_at  bigint not null,
    primary key (follower_id, followee_id)
);
create index follow_followers on follow (followee_id, follower_id) where state = 'active';
create index follow_requests on follow (followee_id, updated_at, follower_id) where state = 'requested';

create table block (
    user_id    text collate "C" not null,
    target_id  text collate "C" not null check (target_id <> user_id),
    state      text collate "C" not null check (state in ('active', 'removed')),
    version    bigint not null check (version >= 1),
    created_at bigint not null,
    updated_at bigint not null,
    primary key (user_id, target_id)
);
create index block_of_target on block (target_id, user_id) where state = 'active';

create table mute (like block including all);

-- Likes and reposts.
create table reaction (
    kind       text collate "C" not null check (kind in ('like', 'repost')),
    user_id    text collate "C" not null,
    post_id    text collate "C" not null references post,
    state      text collate "C" not null check (state in ('active', 'removed')),
    is_pushed  boolean not null,  -- of a repost: as of a post
    version    bigint not null check (version >= 1),
    created_at bigint not null,
    updated_at bigint not null,
    primary key (post_id, kind, user_id)
);
create index reaction_of_user on reaction (user_id, kind, updated_at, post_id) where state = 'active';
create index reaction_pulled on reaction (user_id) where state = 'active' and kind = 'repost' and not is_pushed;

-- What a user is told. A row is a claim, no right: whether it may still be read is decided at every read.
create table notification (
    notification_id text collate "C" primary key,
    user_id         text collate "C" not null,
    kind            text collate "C" not null
                    check (kind in ('follow', 'follow_request', 'like', 'repost', 'reply', 'quote', 'mention', 'moderation')),
    actor_id        text collate "C",  -- null: nobody who is named
    post_id         text collate "C",
    created_at      bigint not null
);
create index notification_of_user on notification (user_id, created_at, notification_id);
create index notification_of_actor on notification (actor_id);
create index notification_of_post on notification (post_id);

-- The decision in force over a post, a medium or a user; no row, or the effect none: nothing.
create table moderation_current (
    object_id   text collate "C" primary key,
    effect      text collate "C" not null check (effect in ('none', 'label', 'limit', 'remove')),
    decision_id text collate "C" not null,
    epoch       bigint not null
);

-- The only rule of who sees a post: the pairs (viewer, post) that may be read, whatever the surface.
create function social_authorize(viewers text[], posts text[]) returns table (viewer text, post_id text)
language sql stable parallel safe
begin atomic
    select asked.viewer, p.post_id
    from unnest(viewers, posts) as asked (viewer, post_id)
    join post p on p.post_id = asked.post_id and p.state = 'published'
    join author a on a.user_id = p.author_id
    where a.state not in ('deleting', 'deleted')
      and (p.author_id = asked.viewer
           or (a.state = 'active'
               and p.visibility <> 'private'
               and not exists (select from moderation_current m where m.object_id = p.post_id and m.effect = 'remove')
               and not exists (select from block b
                               where b.user_id = p.author_id and b.target_id = asked.viewer and b.state = 'active')
               and not exists (select from block b
                               where b.user_id = asked.viewer and b.target_id = p.author_id and b.state = 'active')
               and ((p.visibility = 'public' and not a.is_private)
                    or exists (select from follow f
                               where f.follower_id = asked.viewer and f.followee_id = p.author_id
                                 and f.state = 'active'))));
end;

-- Whether two users are there for each other: both known, none of them blocks the other.
create function social_met(users text[], others text[]) returns table (user_id text, other_id text)
language sql stable parallel safe
begin atomic
    select asked.user_id, a.user_id
    from unnest(users, others) as asked (user_id, other_id)
    join author a on a.user_id = asked.other_id and a.state = 'active'
    where not exists (select from block b
                      where b.state = 'active' and b.user_id = asked.user_id and b.target_id = asked.other_id)
      and not exists (select from block b
                      where b.state = 'active' and b.user_id = asked.other_id and b.target_id = asked.user_id);
end;

-- what the runtime of every owner reads and writes
grant select, insert, update on partition_owner to millrace_social_owner;
grant select, insert on idempotency, outbox, dead_letter, parked_aggregate to millrace_social_owner;
grant update (published) on dead_letter to millrace_social_owner;

grant select, insert, update on author, post, follow, block, mute, reaction, moderation_current to millrace_social_owner;
grant select, insert, delete on post_version, notification to millrace_social_owner;

-- A user exists from its first call on: all that the ingress writes of it.
grant insert (user_id) on author to millrace_ingress;
grant select on author, post, post_version, follow, block, mute, reaction, notification, moderation_current
    to millrace_ingress, millrace_operator, millrace_reader;

-- Fan-out reads edges and posts, forgets notifications of what is gone, and keeps how far it got.
grant select, insert, update on stream_position to millrace_social_worker;
grant select on author, post, follow, reaction, block to millrace_social_worker;
grant select, delete on notification to millrace_social_worker;
