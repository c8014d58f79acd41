-- The reports of every processor and bank. The table holds one row for each file that was ever taken in.
select r.processor, r.report_id, r.format, r.state, r.lines, r.matched, r.note, r.ingested_at
from settlement_report r order by r.ingested_at desc limit %(limit)s
