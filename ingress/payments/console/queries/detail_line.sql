-- One settlement line, as it was read and what it was found to be. Primary keys.
select l.processor, l.line_id, l.report_id, l.line_no, l.type, l.operation_id, l.reference, l.provider_ref, l.currency,
       l.gross, l.fee, l.net, l.net_currency, l.batch, l.created, l.class, l.difference, l.matched, l.intent_id, l.part_of,
       l.finding, l.counterpart, l.posting, l.case_id, r.format, r.state as report_state, r.ingested_at
from settlement_line l left join settlement_report r on r.processor = l.processor and r.report_id = l.report_id
where l.processor = %(processor)s and l.line_id = %(id)s
