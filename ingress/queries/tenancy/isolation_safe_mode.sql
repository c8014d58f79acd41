-- Whether safe mode is on: once a second of each process, and GET /v1/isolation. One row.
select is_on, canaries, (extract(epoch from since) * 1000000)::bigint, probe, evidence, proposed_by
from isolation_safe_mode where only_one
