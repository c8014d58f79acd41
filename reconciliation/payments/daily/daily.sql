-- Reports that are fetched each day without a person (loop.py). Every statement is of one processor, or of one row.

-- name: reports_turn
-- Whether it is this process's turn with a processor, until its session ends.
select pg_try_advisory_lock(%(lock)s, hashtext(%(name)s));

-- name: reports_begin
-- The first look at a processor: its days begin here, unless they have begun.
select reports_begin(%(name)s, %(day)s);

-- name: reports_last
-- What is over, and how the day after it goes; the time is the database's, as it is everybody's. Primary key.
select r.day, r.tries, r.tried_at, clock_timestamp() from scheduled_run r where r.name = %(name)s;

-- name: reports_now
-- The database's time.
select clock_timestamp();

-- name: reports_tried
-- A day that is not over was tried.
select reports_tried(%(name)s, %(before)s, %(note)s);

-- name: reports_done
-- Days are over; false when another process was faster.
select reports_done(%(name)s, %(before)s, %(day)s, %(details)s);

-- name: reports_taken
-- When reports came of which the processor does not say when it made them. Primary key.
select report_id, ingested_at from settlement_report where processor = %(processor)s and report_id = any(%(ids)s);

-- name: reports_expected
-- Whether a processor moved money before a moment that no report names yet; without any it owes no report.
-- Once for each day that ends: as summary_overdue of a run, it may read all that is unsettled.
select exists (select from processor_attempt a
               where a.processor = %(processor)s and a.status in ('captured', 'refunded') and a.settled_line is null
                 and a.updated_at < %(before)s
                 and not exists (select from settlement_line l where l.matched = a.operation_id));

-- name: report_missing_open
-- The deadline of a day's report is over. A case for each day, which is opened in the transaction that ends the day.
insert into repair_case (id, kind, reference, processor, evidence)
values ('case_' || substr(encode(sha256(convert_to('report' || %(reference)s, 'UTF8')), 'hex'), 1, 26),
        'report_missing', %(reference)s, %(processor)s, %(evidence)s)
on conflict do nothing
returning id;
