-- Moderation of posts, media and users. Decisions are only added; the last one of an object is in moderation_current.

create table moderation_case (
    object_id  text collate "C" primary key,
    reports    bigint not null check (reports >= 0),
    priority   bigint not null,
    state      text collate "C" not null check (state in ('open', 'assigned', 'decided')),
    assignee   text collate "C",
    version    bigint not null check (version >= 1),
    opened_at  bigint not null,
    updated_at bigint not null,
    constraint case_assigned check (state <> 'assigned' or assignee is not null)
);
create index moderation_queue on moderation_case (priority, object_id) where state <> 'decided';

-- One per user and object: others of the same user say nothing new.
create table moderation_report (
    object_id  text collate "C" not null,
    user_id    text collate "C" not null,
    report_id  text collate "C" not null,
    reason     text collate "C" not null,
    comment    text,
    version    bigint not null,
    created_at bigint not null,
    primary key (object_id, user_id)
);
create index moderation_report_of_user on moderation_report (user_id);

create table moderation_decision (
    decision_id    text collate "C" primary key,
    object_id      text collate "C" not null,
    author_id      text collate "C" not null,
    decision       text collate "C" not null check (decision in ('none', 'label', 'limit', 'remove')),
    reason         text not null,
    policy_version bigint not null,
    label          text,
    expires_at     text,
    supersedes     text collate "C",
    moderator      text collate "C" not null,
    version        bigint not null check (version >= 1),
    created_at     bigint not null,
    unique (object_id, version)
);
create index moderation_decision_ends on moderation_decision (object_id) where expires_at is not null;
create index moderation_decision_of_author on moderation_decision (author_id);

create table moderation_appeal (
    appeal_id   text collate "C" not null unique,
    decision_id text collate "C" primary key references moderation_decision,
    author_id   text collate "C" not null,
    text        text not null,
    state       text collate "C" not null check (state in ('open', 'upheld', 'reversed')),
    decided_by  text collate "C",
    version     bigint not null,
    created_at  bigint not null,
    updated_at  bigint not null
);

-- What a decision has to reach. It is looked at until it is seen there, however often.
create table moderation_propagation (
    decision_id text collate "C" not null references moderation_decision,
    consumer    text collate "C" not null,
    object_id   text collate "C" not null,
    effect      text collate "C" not null,
    state       text collate "C" not null default 'pending' check (state in ('pending', 'verified')),
    attempts    integer not null default 0,
    next_at     timestamptz not null default clock_timestamp(),
    verified_at timestamptz,
    seen        text,  -- what was still there at the last look
    primary key (decision_id, consumer),
    check ((state = 'verified') = (verified_at is not null))
);
create index moderation_propagation_due on moderation_propagation (next_at) where state = 'pending';

grant select, insert, update on moderation_case, moderation_appeal, moderation_current to millrace_social_owner;
grant select, insert on moderation_report, moderation_decision to millrace_social_owner;
grant insert on moderation_propagation to millrace_social_owner;
grant select on moderation_case, moderation_report, moderation_decision, moderation_appeal, moderation_propagation
    to millrace_ingress, millrace_operator, millrace_reader;

grant select on moderation_decision, moderation_current, post, post_version, author, follow, block, notification, media,
    media_access to millrace_social_propagation;
grant select, update on moderation_propagation to millrace_social_propagation;
