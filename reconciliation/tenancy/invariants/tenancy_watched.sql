-- id: tenancy_watched
-- title: Where the isolation monitor runs, it carries out whole rounds: what it does not look at it does not find
-- severity: major
-- owner: whoever runs the monitor
-- source: postgres
-- Asked where this machine's stack has run it for longer than a round may take.
select r.as_of as last_whole_round, 'no whole round of probes since' as reason
from (select max(as_of) as as_of from isolation_round) r
where %(monitored_s)s::float8 > %(monitor_round_s)s
  and (r.as_of is null or r.as_of < now() - make_interval(secs => %(monitor_round_s)s))
