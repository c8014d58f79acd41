-- Media on their way, the oldest of each stage first, and what each waits for. Served by media_orphans and media_scanning;
-- primary key of media_scan.
(select m.media_id, m.owner_id, m.mime, m.size, 'uploading' as stage, to_timestamp(m.updated_at / 1e6) as since,
        null::integer as tries, null::text as seen
 from media m
 where m.attached_post_id is null and m.scan_state in ('initiated', 'scanning', 'ready') and m.scan_state = 'initiated'
 order by m.created_at limit %(limit)s::int)
union all
(select m.media_id, m.owner_id, m.mime, m.size,
        case when s.seen like 'clamd%%' then 'waiting_for_clamd'
             when s.seen = 'processing' and s.leased_until >= clock_timestamp() then 'processing'
             when s.seen is null or s.seen = 'processing' then 'scanning' else 'stuck' end,
        to_timestamp(m.updated_at / 1e6), s.tries, s.seen
 from media m left join media_scan s using (media_id)
 where m.scan_state = 'scanning' order by m.updated_at limit %(limit)s::int)
