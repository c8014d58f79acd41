-- Media of posts: uploads part by part, what scans found, renditions. The owner of the author's partition writes a medium.

create table media (
    media_id           text collate "C" primary key,
    owner_id           text collate "C" not null references author,
    mime               text collate "C" not null,
    size               bigint not null check (size > 0),
    sha256             text collate "C" not null,
    parts              integer not null check (parts > 0),
    expires_in_s       integer not null,
    scan_state         text collate "C" not null
                       check (scan_state in ('initiated', 'scanning', 'ready', 'checksum_failed', 'infected', 'rejected',
                                             'expired', 'deleted')),
    manifest           text,
    attached_post_id   text collate "C" references post,
    access_version     bigint not null default 1,
    version            bigint not null check (version >= 1),
    created_at         bigint not null,
    updated_at         bigint not null,
    constraint media_ready check ((scan_state = 'ready') = (manifest is not null))
);
create index media_of_owner on media (owner_id, created_at, media_id);
create index media_of_post on media (attached_post_id) where attached_post_id is not null;
create index media_scanning on media (updated_at) where scan_state = 'scanning';
create index media_orphans on media (created_at) where attached_post_id is null and scan_state in ('initiated', 'scanning', 'ready');

-- What was declared of each part, and whether the origin holds it. Its bytes are on disk before it is received.
create table media_part (
    media_id    text collate "C" not null references media,
    number      integer not null check (number > 0),
    size        bigint not null check (size > 0),
    sha256      text collate "C" not null,
    received_at timestamptz,
    primary key (media_id, number)
);

-- Who scans what, until when; and whose bytes are gone. Of workers alone: a medium changes by commands.
create table media_scan (
    media_id     text collate "C" primary key references media,
    leased_until timestamptz not null,
    tries        integer not null default 1,
    swept_at     timestamptz
);
create index media_ended on media (updated_at) where scan_state in ('checksum_failed', 'infected', 'rejected', 'expired', 'deleted');

-- Whole contents that are refused wherever they come from: an operator's list.
create table media_blocked (
    sha256 text collate "C" primary key check (sha256 ~ '^[0-9a-f]{64}$'),
    reason text not null,
    added_at timestamptz not null default clock_timestamp()
);

-- Every change that may hide something raises an epoch, in its own transaction, whoever makes it. The sum of the epochs of
-- a medium is its access version: it never falls, and the path of each URL has it.
alter table author add column access_epoch bigint not null default 0;
alter table post add column access_epoch bigint not null default 0;

create function social_raise_access_epoch() returns trigger language plpgsql as $$
begin
    new.access_epoch := old.access_epoch + 1;
    return new;
end $$;
create trigger author_hides before update of is_private, state on author
    for each row when (old.is_private is distinct from new.is_private or old.state is distinct from new.state)
    execute function social_raise_access_epoch();
create trigger post_hides before update of visibility, state on post
    for each row when (old.visibility is distinct from new.visibility or old.state is distinct from new.state)
    execute function social_raise_access_epoch();

-- What the origin serves of a medium, under which version, and to whom: everybody, or who has a signed URL.
create view media_access as
select m.media_id, m.owner_id, m.attached_post_id, m.manifest,
       m.access_version + a.access_epoch + coalesce(p.access_epoch, 0) + decided.epochs as access_version,
       m.scan_state = 'ready' and a.state = 'active' and (p.post_id is null or p.state = 'published')
           and not decided.is_removed as is_served,
       coalesce(p.visibility = 'public' and not a.is_private, false) as is_public,
       case when m.scan_state = 'ready' and decided.is_removed then 'taken_down' else m.scan_state end as shown_state
from media m
join author a on a.user_id = m.owner_id
left join post p on p.post_id = m.attached_post_id
cross join lateral (
    select coalesce(sum(c.epoch), 0)::bigint as epochs, coalesce(bool_or(c.effect = 'remove'), false) as is_removed
    from moderation_current c where c.object_id in (m.media_id, m.attached_post_id, m.owner_id)) as decided;

grant select, insert, update on media to millrace_social_owner;
grant select, insert on media_part to millrace_social_owner;
grant select on media_blocked to millrace_social_owner, millrace_social_scanner, millrace_operator;
grant insert, update, delete on media_blocked to millrace_operator;
grant select on media, media_part, media_access, media_scan to millrace_ingress, millrace_operator, millrace_reader;

-- The origin notes what it holds, and reads what it may serve.
grant select on media, media_part, media_access to millrace_social_media;
grant update (received_at) on media_part to millrace_social_media;

-- The scanner reads what waits, and keeps its leases.
grant select on media to millrace_social_scanner;
grant select, insert, update on media_scan to millrace_social_scanner;
