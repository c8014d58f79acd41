-- No edge leads to who is erased. A follow that came after a lifted block is ended, and counted no more, in one statement: owners of an
-- earlier release may make another one meanwhile.
with left_over as (
    select f.follower_id, f.followee_id, f.state
    from author a join follow f on f.followee_id = a.user_id and f.state <> 'removed'
    where a.state = 'deleted' for update of a, f),
ended as (
    update follow f set state = 'removed', version = f.version + 1,
                        updated_at = (extract(epoch from clock_timestamp()) * 1000000)::bigint
    from left_over l where f.follower_id = l.follower_id and f.followee_id = l.followee_id)
update author a set followers = a.followers - l.active
from (select followee_id, count(*) filter (where state = 'active') as active from left_over group by 1) l
where a.user_id = l.followee_id and l.active > 0;
