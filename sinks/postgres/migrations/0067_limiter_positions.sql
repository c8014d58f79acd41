-- The streams of the limiter keep their positions where every follower does: fenced by an epoch. Their records have no seq.
insert into stream_position (follower, topic, partition, next_offset, last_seq)
select 'limiter_leases', 'limiter.leases.v1', partition, next_offset, -1 from limit_lease_position
union all
select 'limiter_identities', 'limiter.identities.v1', partition, next_offset, -1 from limit_identity_position
union all
select 'limiter_usage', 'limiter.decisions.v1', partition, next_offset, -1 from limit_usage_position;
-- A process of the release before must not go on from positions that nobody moves any more: without these it ends.
alter table limit_lease_position drop column next_offset;
drop table limit_identity_position, limit_usage_position;
grant select, insert, update on stream_position to millrace_leases;
