-- What users do with all that is their own: copies of it, and its erasure.

create table export (
    export_id  text collate "C" primary key,
    user_id    text collate "C" not null references author,
    version    bigint not null,
    created_at bigint not null
);
create index export_of_user on export (user_id);

-- One for each user that is gone. What was taken away is counted as it goes, in the same transactions.
create table erasure (
    user_id    text collate "C" primary key references author,
    erasure_id text collate "C" not null unique,
    state      text collate "C" not null check (state in ('running', 'complete')),
    jws        text,
    version    bigint not null,
    created_at bigint not null,
    updated_at bigint not null,
    posts      bigint not null default 0,
    media      bigint not null default 0,
    edges      bigint not null default 0,
    constraint erasure_certified check ((state = 'complete') = (jws is not null))
);
create index erasure_running on erasure (created_at) where state = 'running';

grant select, insert, update on erasure to millrace_social_owner;
grant select, insert on export to millrace_social_owner;
grant select on erasure, export to millrace_ingress, millrace_operator, millrace_reader;

-- The eraser alone takes away what is not its own, and only of users who are on their way out (``eraser.sql``).
grant select on author, erasure, post, post_version, media, media_access, media_part, media_scan, follow, block, mute, reaction,
    notification, moderation_report, moderation_appeal, moderation_current, export, idempotency to millrace_social_eraser;
grant update (posts, media, edges) on erasure to millrace_social_eraser;
grant update (followers) on author to millrace_social_eraser;
grant update (text, media_ids, state, version, edited_at, access_epoch) on post to millrace_social_eraser;
grant update (scan_state, manifest, access_version, version, updated_at) on media to millrace_social_eraser;
grant update (state, version, updated_at) on follow, block, mute, reaction to millrace_social_eraser;
grant update (user_id, comment) on moderation_report to millrace_social_eraser;
grant update (text) on moderation_appeal to millrace_social_eraser;
grant delete on post_version, notification, export to millrace_social_eraser;
grant update (response) on idempotency to millrace_social_eraser;
create index if not exists media_of_erased on media (owner_id) where scan_state not in ('checksum_failed', 'infected', 'rejected', 'expired', 'deleted');
