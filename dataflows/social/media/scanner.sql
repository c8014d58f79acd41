-- What a scanner asks. It never writes a medium: that changes by commands.

-- name: scans_claim
-- Media that wait for a scan and that nobody scans now: of each owner one after the other, what is scanned now included, so
-- that who has many keeps nobody waiting. Served by media_scanning; primary key of media_scan.
with waiting as (
    select m.media_id, m.updated_at, known.is_free,
           row_number() over (partition by m.owner_id order by known.is_free, m.updated_at) as turn
    from media m cross join lateral (
        select not exists (select from media_scan s where s.media_id = m.media_id and s.leased_until >= clock_timestamp())) as known (is_free)
    where m.scan_state = 'scanning')
insert into media_scan as s (media_id, leased_until)
select w.media_id, clock_timestamp() + make_interval(secs => %(lease_s)s)
from waiting w where w.is_free order by w.turn, w.updated_at limit %(limit)s
on conflict (media_id) do update
    set leased_until = excluded.leased_until, tries = s.tries + 1 where s.leased_until < clock_timestamp()
returning media_id;

-- name: scans_read
-- What was claimed. Primary keys.
select m.media_id, m.owner_id, m.mime, m.size, m.sha256, m.version,
       exists (select from media_blocked b where b.sha256 = m.sha256), s.crashes, s.kills
from media m join media_scan s using (media_id)
where m.media_id = any (%(media_ids)s::text[]) and m.scan_state = 'scanning';

-- name: scans_wanted
-- Which of what is scanned waits for it still, its lease renewed: a medium may end meanwhile, with its owner. Primary keys.
update media_scan s set leased_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
from media m where m.media_id = s.media_id and m.media_id = any (%(media_ids)s::text[]) and m.scan_state = 'scanning'
returning s.media_id;

-- name: scans_looked
-- What was found is on its way to the owner, which decides soon; else the medium is scanned again, less and less often.
update media_scan s
set leased_until = clock_timestamp() + make_interval(secs => least(3 * power(2, least(s.tries, 6)), %(most_s)s))
where s.media_id = any (%(media_ids)s::text[]);

-- name: scans_seen
-- What each of these did or met, for operators. Primary key.
update media_scan s set seen = nullif(t.seen, '')
from unnest(%(media_ids)s::text[], %(seen)s::text[]) as t (media_id, seen)
where s.media_id = t.media_id and s.seen is distinct from nullif(t.seen, '');

-- name: scans_failed
-- Decoders that ended for a reason that may be their medium or the machine, or that somebody killed. Primary key.
update media_scan set crashes = crashes + (media_id = any (%(crashed)s::text[]))::int,
                      kills = kills + (media_id = any (%(killed)s::text[]))::int
where media_id = any (%(crashed)s::text[] || %(killed)s::text[]);

-- name: orphans_read
-- What no post took in time. Served by media_orphans.
select media_id, owner_id, version, created_at from media
where attached_post_id is null and scan_state in ('initiated', 'scanning', 'ready') and created_at < %(before)s
order by created_at limit %(limit)s;

-- name: ended_read
-- What has ended, and whose bytes are to be taken away; the second time nobody writes any more. Served by media_sweep_due.
select w.media_id, m.sha256, w.ended_at < clock_timestamp() - make_interval(secs => %(late_s)s)
from media_sweep w join media m using (media_id) left join media_scan s using (media_id)
where w.next_at <= clock_timestamp()
  and (s.leased_until is null or s.leased_until < clock_timestamp())  -- else a scan may still write
order by w.next_at limit %(limit)s;

-- name: ended_swept
-- Their bytes are gone, of some for good; a writer that was under way is waited for. Primary key.
with gone as (delete from media_sweep where media_id = any (%(last_ids)s::text[]))
update media_sweep set next_at = ended_at + make_interval(secs => %(late_s)s) where media_id = any (%(media_ids)s::text[]);

-- name: ended_left
-- Their bytes could not be taken away: others first. Primary key.
update media_sweep set next_at = clock_timestamp() + make_interval(secs => %(wait_s)s) where media_id = any (%(media_ids)s::text[]);
