-- The settlement lines of attempts, disputes and refunds, with their reports. Served by settlement_line_of.
select l.processor, l.line_id, l.report_id, l.type, l.currency, l.gross, l.fee, l.net, l.net_currency, l.class,
       l.difference, l.matched, l.finding, l.posting, l.batch, l.created, l.case_id, r.ingested_at
from settlement_line l join settlement_report r on r.processor = l.processor and r.report_id = l.report_id
where l.matched = any(%(references)s::text[])
order by r.ingested_at, l.line_no limit %(limit)s
