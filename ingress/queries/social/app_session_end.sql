-- Signing out; rows of sessions that are over anyway leave on the way. Primary key and app_session_ended_age.
with over as (
    delete from app_session_ended where expires_at < now()
)
insert into app_session_ended (session_id, expires_at) values (%(id)s, to_timestamp(%(expires_at)s))
on conflict do nothing
