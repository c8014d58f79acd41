-- Pages of social posts: sessions that have ended, and what the moderation desk looks things up by.

-- A session is a signed cookie; signing out ends it before its time, at every ingress process.
create table app_session_ended (
    session_id text collate "C" primary key,
    expires_at timestamptz not null                  -- after it the cookie is refused anyway
);
create index app_session_ended_age on app_session_ended (expires_at);
grant select, insert, delete on app_session_ended to millrace_ingress;

create index moderation_appeal_open on moderation_appeal (created_at, appeal_id) where state = 'open';
create index moderation_decision_newest on moderation_decision (created_at, decision_id);
