-- Settlement reconciliation: a report is staged, matched and kept in one transaction (reconciliation/payments/settlement).

-- name: stage_create
-- First of a report, for this transaction alone: its lines as read, what is wrong, and lines that are not plain.
create temp table settlement_stage (
    line_no integer not null, line_id text collate "C" not null, type text collate "C" not null,
    operation_id text collate "C", intent_id text collate "C", attempt integer, reference text collate "C",
    provider_refs text[] not null, currency text collate "C" not null, gross bigint not null, fee bigint not null,
    net bigint not null, net_currency text collate "C" not null, batch text collate "C", created text, contract_fee bigint,
    earlier_id text collate "C", earlier_batch text collate "C"
) on commit drop;
create temp table settlement_found (
    subject text collate "C" not null, class text collate "C" not null, reference text collate "C" not null,
    amount bigint not null, currency text collate "C", line_id text collate "C", matched text collate "C",
    detail text, case_id text collate "C", is_news boolean not null default false
) on commit drop;
create temp table settlement_candidate (
    line_no integer not null, line_id text collate "C" not null, type text collate "C" not null,
    operation_id text collate "C", reference text collate "C", provider_refs text[] not null,
    currency text collate "C" not null, gross bigint not null, fee bigint not null, net bigint not null,
    net_currency text collate "C" not null, batch text collate "C", created text, contract_fee bigint,
    matched text collate "C", intent_id text collate "C", attempt integer, status text collate "C", came_back boolean, begun_at timestamptz,
    amount bigint, expected_currency text collate "C", expected_fee bigint
) on commit drop;

-- name: stage_copy
-- ingest, as lines are read.
copy settlement_stage (line_no, line_id, type, operation_id, intent_id, attempt, reference, provider_refs, currency,
                       gross, fee, net, net_currency, batch, created, contract_fee, earlier_id, earlier_batch) from stdin;

-- name: found_copy
-- store.keep_found, and the next statement takes them from there.
copy settlement_found (subject, class, reference, amount, currency, line_id, matched, detail, case_id, is_news) from stdin;

-- name: line_copy
-- judging, in chunks.
copy settlement_line (processor, line_id, report_id, line_no, type, operation_id, reference, provider_ref, currency,
                      gross, fee, net, net_currency, batch, created, class, difference, matched, intent_id, attempt,
                      part_of, finding, posted_gross, posted_fee, posted_difference, posting) from stdin;

-- name: stage_earlier_names
-- A batch of which an earlier release took something in, under names without the merchant account, goes on under them:
-- known by a line that no other account can have (a psp reference names it), or by one that is equal in all. Before
-- repeats get their numbers; those of before were counted over all accounts of a file. Primary key.
with numbered as (
    select line_no, earlier_id || case when number > 1 then '~' || number else '' end as earlier_id
    from (select line_no, earlier_id, row_number() over (partition by earlier_id order by line_no) as number
          from settlement_stage where earlier_id is not null) r
), begun as (
    select distinct s.batch
    from settlement_stage s
    left join numbered e using (line_no)
    join settlement_line k on k.processor = %(processor)s and k.line_id = coalesce(e.earlier_id, s.line_id)
        and k.batch = s.earlier_batch
    where s.earlier_batch is not null
      and (e.earlier_id is null or (k.type, k.currency, k.gross, k.fee, k.net, k.created)
                                   is not distinct from (s.type, s.currency, s.gross, s.fee, s.net, s.created))
)
update settlement_stage s
set batch = s.earlier_batch,
    line_id = coalesce((select e.earlier_id from numbered e where e.line_no = s.line_no), s.line_id)
from begun b where s.batch = b.batch;

-- name: stage_number_repeats
-- The same identity twice in one file is two lines: the later ones get a number, the same at every reading.
update settlement_stage s set line_id = s.line_id || '~' || r.number
from (select line_no, row_number() over (partition by line_id order by line_no) as number from settlement_stage
      where line_id in (select line_id from settlement_stage group by line_id having count(*) > 1)) r
where r.line_no = s.line_no and r.number > 1;

-- name: stage_waiting
-- Lines that waited for an attempt to come to its end are read again, as if they came now. Index settlement_line_waiting.
with again as (
    delete from settlement_line where class = 'waiting' and processor = %(processor)s and report_id = %(report_id)s
    returning *
)
insert into settlement_stage
select line_no, line_id, type, operation_id, intent_id, attempt, reference, array_remove(array[provider_ref], null), currency,
       gross, fee, net, net_currency, batch, created, null, null, null
from again;

-- name: batches_paid_out
-- What is paid out must be what the lines of its batch make; a payout is written with either sign. Asked before known
-- lines leave the stage.
select coalesce(batch, ''), net_currency,
       coalesce(sum(net) filter (where type not like 'payout%%'), 0)::bigint as lines_net,
       abs(coalesce(sum(net) filter (where type = 'payout'), 0))::bigint as paid
from settlement_stage group by batch, net_currency
having count(*) filter (where type = 'payout') > 0;

-- name: stage_known_payouts
-- One payout is announced once, whichever report tells of it first: it is its processor's name of it and its currency, not
-- the name of a line. Under another one it is the line that was announced (with what that says, when both are of the same
-- money). What only its lines imply (its id is that of its batch) says nothing new unless lines of it are.
-- Adyen names no payouts: there its line is its identity. A payout is written with either sign. Index
-- settlement_line_payout.
with known as (
    select distinct on (s.line_no) s.line_no, k.line_id, k.gross, k.fee, k.net, abs(k.net) = abs(s.net) as is_equal,
           s.line_id = s.batch || ':' || s.net_currency
           and not exists (select from settlement_stage n
                           where n.batch = s.batch and n.line_id <> s.line_id
                             and not exists (select from settlement_line o
                                             where o.processor = %(processor)s and o.line_id = n.line_id)) as is_no_news
    from settlement_stage s
    join settlement_line k on k.processor = %(processor)s and k.type = 'payout' and k.class = 'announced'
        and k.currency = s.currency and k.provider_ref is not null
        and (k.provider_ref = any(s.provider_refs) or k.provider_ref = s.batch
             or k.batch = any(s.provider_refs) or k.batch = s.batch)
    where s.type = 'payout' and cardinality(s.provider_refs) > 0
    order by s.line_no, k.line_id = s.line_id desc, k.line_id
), gone as (
    delete from settlement_stage s using known k where s.line_no = k.line_no and k.is_no_news
)
update settlement_stage s
set line_id = k.line_id, fee = case when k.is_equal then k.fee else s.fee end,
    gross = case when k.is_equal then k.gross when k.net < 0 then -abs(s.gross) else abs(s.gross) end,
    net = case when k.is_equal then k.net when k.net < 0 then -abs(s.net) else abs(s.net) end
from known k where s.line_no = k.line_no and not k.is_no_news and s.line_id <> k.line_id;

-- name: changed_lines
-- A line that was taken in before and now says something else: told, and left as it was. With whether no report said so of
-- it yet. Primary keys.
select s.line_no, s.line_id, s.operation_id, s.reference, k.intent_id,
       not exists (select from settlement_line_change c
                   where c.processor = k.processor and c.line_id = k.line_id
                     and (c.type, c.currency, c.gross, c.fee, c.net) = (s.type, s.currency, s.gross, s.fee, s.net)),
       s.type, s.currency, s.gross, s.fee, s.net, k.type, k.currency, k.gross, k.fee, k.net
from settlement_stage s
join settlement_line k on k.processor = %(processor)s and k.line_id = s.line_id
where (k.type, k.currency, k.gross, k.fee, k.net) is distinct from (s.type, s.currency, s.gross, s.fee, s.net);

-- name: changes_keep
-- ingest: which report said so, after changed_lines. Primary keys.
insert into settlement_line_change (processor, report_id, line_id, type, currency, gross, fee, net)
select k.processor, %(report_id)s, k.line_id, s.type, s.currency, s.gross, s.fee, s.net
from settlement_stage s
join settlement_line k on k.processor = %(processor)s and k.line_id = s.line_id
where (k.type, k.currency, k.gross, k.fee, k.net) is distinct from (s.type, s.currency, s.gross, s.fee, s.net)
on conflict (processor, line_id, report_id) do update
    set type = excluded.type, currency = excluded.currency, gross = excluded.gross, fee = excluded.fee, net = excluded.net;

-- name: stage_forget_known
-- Rule: the same lines again, in whatever report, change nothing. Primary key.
delete from settlement_stage s using settlement_line k
where k.processor = %(processor)s and k.line_id = s.line_id;

-- name: candidates_sort
-- Every line beside the attempt that its operation names, and what it should have cost: null = nobody says. The plain case, the one line of a movement that is equal in
-- everything, is kept as matched at once; the others become candidates. Tells how many were plain, and between which
-- captures they reach.
with repeated as (
    select operation_id from settlement_stage where operation_id is not null and type in ('charge', 'capture_reversal', 'refund')
    group by 1 having count(*) > 1
), named as (
    select s.*, a.operation_id as matched, a.status, a.kind, a.created_at as begun_at, a.final as came_back,
           a.currency as expected_currency, a.amount,
           coalesce(s.contract_fee, case when a.kind <> 'refund' then (a.amount * %(fee_bps)s::bigint + 5000) / 10000
                                         else 0 * %(fee_bps)s::bigint end) as expected_fee
    from settlement_stage s
    left join processor_attempt a
        on a.intent_id = s.intent_id and a.attempt = s.attempt and a.operation_id = s.operation_id
        and a.processor = %(processor)s
        and ((s.type in ('charge', 'capture_reversal') and a.kind in ('purchase', 'capture')) or (s.type like 'refund%%' and a.kind = 'refund'))
), judged as materialized (
    select n.*,
           coalesce(
               n.currency = n.expected_currency and n.net_currency = n.currency and n.net = n.gross - n.fee
               and n.fee = coalesce(n.expected_fee, n.fee)
               and ((n.type = 'charge' and n.status = 'captured' and n.gross = n.amount)
                    or (n.type = 'refund' and n.status = 'refunded' and n.gross = -n.amount))
               and r.operation_id is null
               and not exists (select 1 from settlement_line p where p.matched = n.matched), false) as is_exact
    from named n
    left join repeated r on r.operation_id = n.operation_id
), plain as (
    insert into settlement_line (processor, line_id, report_id, line_no, type, operation_id, reference, provider_ref,
                                 currency, gross, fee, net, net_currency, batch, created, class, matched, intent_id,
                                 attempt, finding, posting)
    select %(processor)s, line_id, %(report_id)s, line_no, type, operation_id, reference, provider_refs[1],
           currency, gross, fee, net, net_currency, batch, created, 'matched', matched, intent_id, attempt, 'matched',
           'due'
    from judged where is_exact
), listed as (
    insert into settlement_due (processor, report_id, lines, line_count)
    select %(processor)s, %(report_id)s, array_agg(line_id), count(*)
    from judged where is_exact group by line_no / %(list_lines)s
), others as (
    insert into settlement_candidate
    select line_no, line_id, type, operation_id, reference, provider_refs, currency, gross, fee, net, net_currency,
           batch, created, contract_fee, matched, intent_id, attempt, status, came_back, begun_at, amount,
           expected_currency, expected_fee
    from judged where not is_exact
)
select count(*), min(begun_at) filter (where type = 'charge'), max(begun_at) filter (where type = 'charge')
from judged where is_exact;

-- name: candidates_span
-- ingest: the same of the other lines, after what they tell of was looked for.
select count(*), min(begun_at) filter (where type = 'charge'), max(begun_at) filter (where type = 'charge')
from settlement_candidate;

-- name: loose_count
-- ingest: whether any line has to be known by other names than its operation.
select count(*) from settlement_candidate
where matched is null and type in ('charge', 'capture_reversal', 'refund', 'refund_reversal');

-- name: loose_by_provider_ref
-- By the processor's own name of it, when exactly one attempt has it. Scans the attempts: the rare case has no index.
with named as (
    select line_no, type, unnest(provider_refs) as ref from settlement_candidate
    where matched is null and type in ('charge', 'capture_reversal', 'refund', 'refund_reversal')
), hit as (
    select n.line_no, min(a.operation_id) as operation_id
    from named n
    join processor_attempt a on a.provider_ref = n.ref and a.processor = %(processor)s
        and a.kind in ('purchase', 'capture', 'refund') and (a.kind = 'refund') = starts_with(n.type, 'refund')
    group by n.line_no having count(distinct a.operation_id) = 1
)
update settlement_candidate c
set matched = a.operation_id, intent_id = a.intent_id, attempt = a.attempt, status = a.status, came_back = a.final,
    begun_at = a.created_at, amount = a.amount, expected_currency = a.currency,
    expected_fee = coalesce(
        c.contract_fee, case when a.kind <> 'refund' then (a.amount * %(fee_bps)s::bigint + 5000) / 10000
                             else 0 * %(fee_bps)s::bigint end)
from hit h join processor_attempt a on a.operation_id = h.operation_id and a.provider_ref is not null
where c.line_no = h.line_no;

-- name: loose_by_reference
-- By payment, amount, currency and type; the n-th such line goes to the n-th such attempt, unsettled ones first.
-- Without an equal amount: the only attempt of that kind, unless the line names an operation that is none of ours.
with lines as (
    select line_no, reference, currency, abs(gross) as amount, starts_with(type, 'refund') as is_refund, operation_id,
           row_number() over (partition by reference, currency, abs(gross), type order by line_no) as number
    from settlement_candidate
    where matched is null and reference is not null
      and type in ('charge', 'capture_reversal', 'refund', 'refund_reversal')
), attempts as (
    select a.*, a.kind = 'refund' as is_refund, count(*) over same as alike, count(*) over kin as of_kind,
           row_number() over (same order by exists (select 1 from settlement_line p where p.matched = a.operation_id),
                              a.attempt rows between unbounded preceding and unbounded following) as number
    from processor_attempt a
    where a.intent_id in (select reference from lines) and a.processor = %(processor)s
      and (a.status in ('captured', 'refunded') or (a.kind = 'refund' and a.status = 'failed' and a.final))
      and a.kind in ('purchase', 'capture', 'refund')
    window same as (partition by a.intent_id, a.amount, a.currency, a.kind = 'refund'),
           kin as (partition by a.intent_id, a.kind = 'refund')
), hit as (
    select distinct on (l.line_no) l.line_no, a.*
    from lines l
    join attempts a on a.intent_id = l.reference and a.is_refund = l.is_refund
        and ((a.amount = l.amount and a.currency = l.currency and a.number = least(l.number, a.alike))
             or (a.of_kind = 1 and l.operation_id is null))
    order by l.line_no, a.amount = l.amount desc
)
update settlement_candidate c
set matched = h.operation_id, intent_id = h.intent_id, attempt = h.attempt, status = h.status, came_back = h.final,
    begun_at = h.created_at, amount = h.amount, expected_currency = h.currency,
    expected_fee = coalesce(
        c.contract_fee, case when h.kind <> 'refund' then (h.amount * %(fee_bps)s::bigint + 5000) / 10000
                             else 0 * %(fee_bps)s::bigint end)
from hit h where c.line_no = h.line_no;

-- name: candidate_drop
-- ingest: lines that were kept as the sum of several captures.
delete from settlement_candidate where line_no = any(%(line_nos)s);

-- name: loose_lines
-- ingest: those lines as they were staged.
select line_no, line_id, type, operation_id, reference, provider_refs, currency, gross, fee, net, net_currency, batch,
       created
from settlement_candidate where line_no = any(%(line_nos)s);

-- name: loose_sums
-- One line for several captures of a payment: they add up to it and none is settled.
select c.line_no, array_agg(a.operation_id order by a.attempt), array_agg(a.attempt order by a.attempt),
       array_agg(a.amount order by a.attempt)
from settlement_candidate c
join processor_attempt a on a.intent_id = c.reference and a.currency = c.currency and a.processor = %(processor)s
    and a.status = 'captured' and a.kind in ('purchase', 'capture')
where c.matched is null and c.type = 'charge' and c.operation_id is null
  and not exists (select 1 from settlement_line p where p.matched = a.operation_id)
group by c.line_no, c.gross having sum(a.amount) = c.gross and count(*) between 2 and %(parts_max)s;

-- name: disputes_match
-- By the processor's name of the dispute, else by payment, amount and currency. A dispute that took its money once more
-- has one name there, and here another behind a colon: the n-th such line goes to the n-th such dispute, those without a
-- line first. Unique index of dispute; dispute_of_intent.
with wanted as (
    select line_no, type, reference, currency, abs(gross) as amount, provider_refs,
           row_number() over (partition by type, provider_refs, reference, currency, abs(gross) order by line_no) as number
    from settlement_candidate where type in ('dispute', 'dispute_reversal')
), named as (
    select w.line_no, w.number, w.type, d.*, n.is_named
    from wanted w
    cross join lateral (
        select o.id, true as is_named
        from unnest(w.provider_refs) as r (ref)
        join dispute o on o.processor = %(processor)s and o.provider_ref >= r.ref and o.provider_ref < r.ref || ';'
            and (o.provider_ref = r.ref or starts_with(o.provider_ref, r.ref || ':'))  -- ';' comes after ':'
        union
        select o.id, false from dispute o
        where o.processor = %(processor)s and o.intent_id = w.reference and o.amount = w.amount
          and o.currency = w.currency
    ) n
    join dispute d using (id)
), alike as (
    select n.*, rank() over (partition by n.line_no order by n.is_named desc) as closeness,
           count(*) over (partition by n.line_no, n.is_named) as alike,
           row_number() over (
               partition by n.line_no, n.is_named
               order by exists (select 1 from settlement_line p
                                where p.processor = %(processor)s
                                  and p.matched = n.id || case n.type when 'dispute' then '' else ':reversed' end),
                        n.created_at, length(n.provider_ref), n.provider_ref) as place
    from named n
), hit as (
    select * from alike where closeness = 1 and place = least(number, alike)
)
update settlement_candidate c
set matched = case c.type when 'dispute' then h.id else h.id || ':reversed' end, intent_id = h.intent_id, attempt = null,
    status = case when h.funds = 'reinstated' or (h.funds = 'withdrawn' and c.type = 'dispute') then 'moved'
                  else 'pending' end,
    amount = h.amount, expected_currency = h.currency,
    expected_fee = case c.type when 'dispute' then h.fee else 0 end
from hit h where c.line_no = h.line_no;

-- name: payouts_of_report
-- ingest: payouts come before whatever undoes them.
select line_no, line_id, type, operation_id, reference, provider_refs, currency, gross, fee, net, net_currency, batch,
       created
from settlement_candidate where type = 'payout' order by line_no;

-- name: payouts_match
-- A payout that came back, beside the payout that it undoes, when that was posted.
update settlement_candidate c set matched = p.line_id, amount = p.posted_gross
from settlement_line p
where c.type = 'payout_reversal' and p.processor = %(processor)s and p.type = 'payout'
  and p.provider_ref = any(c.provider_refs) and abs(p.net) = abs(c.net) and p.currency = c.currency
  and p.class = 'announced';

-- name: candidates_to_judge
-- Everything but the plain case, movement by movement, with what earlier lines paid.
select c.line_no, c.line_id, c.type, c.operation_id, c.reference, c.provider_refs, c.currency, c.gross, c.fee, c.net,
       c.net_currency, c.batch, c.created, c.matched, c.intent_id, c.attempt, c.status, c.came_back, c.amount,
       c.expected_currency, c.expected_fee, p.gross::bigint, p.fee::bigint, p.lines, c.contract_fee is not null
from settlement_candidate c
cross join lateral (
    select coalesce(sum(l.gross), 0) as gross, count(*) as lines,
           coalesce(sum(l.fee) filter (where l.currency = l.net_currency), 0) as fee
    from settlement_line l
    where l.matched = c.matched and l.part_of is null and l.class = any(%(paying)s)
      and (l.type = 'refund_reversal') = (c.type = 'refund_reversal')  -- its refund is another movement
) p
where c.type <> 'payout'
-- what is taken back of a charge comes behind it
order by c.matched nulls last, case c.type when 'capture_reversal' then 'charge' else c.type end,
         c.type = 'capture_reversal', c.line_no;

-- name: missing_arrived
-- What was missing has its line now; its case is closed unless somebody proposed something already.
update settlement_discrepancy d set state = 'resolved', resolved_at = clock_timestamp()
where d.state = 'open' and d.class = 'missing' and d.processor = %(processor)s
  and exists (select 1 from settlement_line l where l.matched = d.matched)
returning d.reference;

-- name: shortages_end
-- A later line changes what was wrong with an earlier one of the same movement.
update settlement_discrepancy d set state = 'resolved', resolved_at = clock_timestamp()
where d.state = 'open' and d.class in ('short', 'over') and d.processor = %(processor)s and d.matched = any(%(matched)s)
returning d.reference;

-- name: resolve_about
-- A report that is sound now was rejected before.
update settlement_discrepancy d set state = 'resolved', resolved_at = clock_timestamp()
where d.state = 'open' and d.class = %(found_class)s and d.processor = %(processor)s and d.subject = %(subject)s
returning d.reference;

-- name: unreadable_lines
-- run: whether lines of a report could not be read. Index settlement_discrepancy_open.
select 1 from settlement_discrepancy
where state = 'open' and class = 'unreadable_line' and processor = %(processor)s
  and starts_with(subject, %(report_id)s || '#') limit 1;

-- name: resolve_read
-- ingest: lines of a report that could not be read before and can be now. Index settlement_discrepancy_open.
update settlement_discrepancy d set state = 'resolved', resolved_at = clock_timestamp()
where d.state = 'open' and d.class = 'unreadable_line' and d.processor = %(processor)s
  and starts_with(d.subject, %(report_id)s || '#') and d.subject <> all(%(unread)s)
returning d.reference;

-- name: resolve_rejected
-- ingest: a file that was rejected, as whatever processor's, is taken in now. Index settlement_discrepancy_open.
update settlement_discrepancy d set state = 'resolved', resolved_at = clock_timestamp()
where d.state = 'open' and d.class = 'unreadable_report' and d.subject = any(%(subjects)s)
returning d.reference;

-- name: cases_resolve
-- Cases of what was explained, when nothing else is open about the same reference. One that a person works on stays.
update repair_case c set state = 'resolved', resolved_at = clock_timestamp(), resolved_by = 'reconciliation',
                         note = 'a later report explained it'
where c.kind = 'settlement_difference' and c.reference = any(%(references)s) and c.state = 'open'
  and not exists (select 1 from settlement_discrepancy d
                  where d.reference = c.reference and d.state = 'open' and d.case_id is not null);

-- name: missing_find
-- Captured before a younger capture was begun that is settled, and without any line. Where not every report since the
-- beginning is known, only between settled ones: what is older may stand in a report that nobody gave us. Refunds and
-- disputes may be called back before a processor books them: they have some days more.
with span as (
    select processor, max(youngest_at) as youngest,
           case when bool_or(is_complete_history) then '-infinity'::timestamptz else min(oldest_at) end as oldest
    from settlement_report where state <> 'rejected' group by processor
)
insert into settlement_found
select a.operation_id, 'missing', a.intent_id, a.amount, a.currency, null, a.operation_id, null,
       'case_' || substr(encode(sha256(convert_to('missing' || a.operation_id, 'UTF8')), 'hex'), 1, 26)
from processor_attempt a join span s on s.processor = a.processor
where ((a.kind in ('purchase', 'capture') and a.status = 'captured')
       or (a.kind = 'refund' and a.status = 'refunded' and a.updated_at < now() - make_interval(days => %(grace_days)s)))
  and a.processor = %(processor)s
  and a.updated_at <= s.youngest and a.created_at >= s.oldest and a.settled_line is null
  and not exists (select 1 from settlement_line l where l.matched = a.operation_id)
union all
select d.id, 'missing', d.intent_id, d.amount, d.currency, null, d.id, null,
       'case_' || substr(encode(sha256(convert_to('missing' || d.id, 'UTF8')), 'hex'), 1, 26)
from dispute d join span s on s.processor = d.processor
where d.funds <> 'none' and d.processor = %(processor)s and d.updated_at < now() - make_interval(days => %(grace_days)s)
  and d.updated_at <= s.youngest and d.created_at >= s.oldest
  and not exists (select 1 from settlement_line l where l.matched = d.id);

-- name: discrepancies_keep
-- New ones only: what is known, open or resolved, stays as it is. What comes back after a report had explained it waits for
-- a person again, with its case; what a person has settled does not come back. A version of it that nobody was told of does,
-- with a case of its own.
with fresh as (
    insert into settlement_discrepancy (processor, subject, class, reference, amount, currency, line_id, matched, detail,
                                        case_id)
    select distinct on (subject, class) %(processor)s, subject, class, reference, amount, currency, line_id, matched,
           detail, case_id
    from settlement_found order by subject, class
    on conflict (processor, subject, class) do update
        set state = 'open', resolved_at = null, amount = excluded.amount, detail = excluded.detail,
            case_id = case when settlement_discrepancy.state = 'resolved' and excluded.class = 'changed_line'
                           then excluded.case_id else settlement_discrepancy.case_id end,
            first_seen = case settlement_discrepancy.state when 'open' then settlement_discrepancy.first_seen
                         else clock_timestamp() end
        where exists (select from settlement_found n
                      where (n.subject, n.class) = (excluded.subject, excluded.class) and n.is_news)
           or settlement_discrepancy.state = 'resolved' and settlement_discrepancy.class = any(%(recurring)s)
          and not exists (select from repair_case c
                          where c.kind = 'settlement_difference' and c.reference = settlement_discrepancy.reference
                            and c.state = 'resolved' and c.resolved_by <> 'reconciliation'
                            and c.resolved_at >= settlement_discrepancy.first_seen)
    returning *
), reopened as (
    update repair_case c set state = 'open', resolved_at = null, resolved_by = null, note = 'it came back'
    from (select distinct on (reference) case_id from fresh where case_id is not null order by reference, class) f
    where c.id = f.case_id and c.state = 'resolved' and c.resolved_by = 'reconciliation'
      and not exists (select from repair_case o
                      where o.kind = c.kind and o.reference = c.reference and o.state <> 'resolved')
), opened as (
    insert into repair_case (id, kind, reference, processor, evidence)
    select distinct on (reference) case_id, 'settlement_difference', reference, processor,
           jsonb_build_object('class', class, 'amount', amount, 'currency', currency, 'line', line_id,
                              'report', %(report_id)s::text, 'operation', matched, 'detail', detail,
                              'findings', count(*) over (partition by reference))
    from fresh where case_id is not null order by reference, class
    on conflict do nothing returning id, reference
)
update settlement_line l set case_id = f.case_id
from fresh f where l.processor = f.processor and l.line_id = f.line_id and f.case_id is not null;

-- name: found_clear
-- store.keep_found, after discrepancies_keep.
truncate settlement_found;

-- name: report_known
-- run: whether a report has to be fetched and read. Primary key.
select state, sha256, format from settlement_report where processor = %(processor)s and report_id = %(report_id)s;

-- name: report_keep
-- Last of a report. Primary key.
insert into settlement_report (processor, report_id, sha256, format, state, note, is_complete_history, lines, matched,
                               oldest_at, youngest_at)
values (%(processor)s, %(report_id)s, %(sha256)s, %(format)s, %(state)s, %(note)s, %(is_complete_history)s, %(lines)s,
        %(matched)s, %(oldest_at)s, %(youngest_at)s)
on conflict (processor, report_id) do update
set sha256 = excluded.sha256, format = excluded.format, state = case settlement_report.state when 'taken_in' then 'taken_in' else excluded.state end,
    note = excluded.note, lines = settlement_report.lines + excluded.lines,
    matched = settlement_report.matched + excluded.matched,
    oldest_at = least(settlement_report.oldest_at, excluded.oldest_at),
    youngest_at = greatest(settlement_report.youngest_at, excluded.youngest_at),
    ingested_at = clock_timestamp();

-- name: report_recount
-- Lines that had waited are matched now.
update settlement_report
set matched = settlement_report.matched + %(matched)s, oldest_at = least(settlement_report.oldest_at, %(oldest_at)s),
    youngest_at = greatest(settlement_report.youngest_at, %(youngest_at)s)
where processor = %(processor)s and report_id = %(report_id)s;

-- name: reporting_processors
-- run: processors of whom something may be missing.
select distinct processor from settlement_report where state <> 'rejected' and youngest_at is not null;

-- name: early_lines_wait
-- run: what a report said of a dispute before its processor told us of it, or of money that our record denied until it
-- was taken over, is explained once we know it, and the line is judged with those that wait. So is a dispute that took
-- its money once more, whose line looked like the first one again. What a person works on stays as it is. Indexes
-- settlement_discrepancy_open, settlement_line_of, dispute_of_intent; unique index of dispute, primary key of attempts.
with told as (
    select d.processor, d.subject, d.class, d.reference as about, l.type, l.reference, l.provider_ref, l.intent_id,
           l.attempt, l.gross, l.currency, l.matched, starts_with(l.type, 'refund') as is_refund,
           case l.type when 'dispute' then '' else ':reversed' end as reversed
    from settlement_discrepancy d
    join settlement_line l on l.processor = d.processor and l.line_id = d.subject and l.class = d.class
    where d.state = 'open' and d.class in ('orphan', 'duplicate')
      and not exists (select 1 from repair_case c where c.kind = 'settlement_difference'
                                                    and c.reference = d.reference and c.state = 'proposed')
), known as (
    update settlement_discrepancy d set state = 'resolved', resolved_at = clock_timestamp()
    from told t
    where d.processor = t.processor and d.subject = t.subject and d.class = t.class
      and case
          when t.type in ('dispute', 'dispute_reversal') then
              exists (select 1 from dispute p
                      where p.processor = t.processor
                        and ((p.provider_ref >= t.provider_ref and p.provider_ref < t.provider_ref || ';'
                              and (p.provider_ref = t.provider_ref or starts_with(p.provider_ref, t.provider_ref || ':')))
                             or (t.class = 'orphan' and p.intent_id = t.reference and p.amount = abs(t.gross)
                                 and p.currency = t.currency))
                        and not exists (select 1 from settlement_line o
                                        where o.processor = t.processor and o.matched = p.id || t.reversed))
              -- what was exchanged for it is told
              and not exists (select 1 from settlement_line o where o.processor = t.processor and o.part_of = t.subject)
          when t.class = 'orphan' and t.type in ('charge', 'capture_reversal', 'refund', 'refund_reversal') then
              exists (select 1 from processor_attempt a
                      where a.intent_id = coalesce(t.intent_id, t.reference) and a.processor = t.processor
                        and a.attempt = coalesce(t.attempt, a.attempt) and (a.kind = 'refund') = t.is_refund
                        and case when a.status = 'failed' then a.kind = 'refund' and a.final
                                 else a.status in ('captured', 'refunded') and t.type <> 'refund_reversal' end
                        and (t.matched is not null
                             or (a.amount = abs(t.gross) and a.currency = t.currency
                                 and not exists (select 1 from settlement_line o where o.matched = a.operation_id))))
          else false end
    returning d.processor, d.subject, d.reference
)
update settlement_line l set class = 'waiting', difference = 0, case_id = null
from known k where l.processor = k.processor and l.line_id = k.subject
returning k.reference;

-- name: reports_waiting
-- run: reports with lines to be judged again. Index settlement_line_waiting.
select distinct processor, report_id from settlement_line where class = 'waiting';

-- name: waiting_outcomes
-- Lines that tell what an open attempt is still waited for. Index settlement_line_waiting.
select l.processor, l.line_id, l.type, l.provider_ref, l.gross, l.currency, a.intent_id, a.attempt, a.operation_id
from settlement_line l
join processor_attempt a on a.intent_id = l.intent_id and a.attempt = l.attempt and a.operation_id = l.matched
where l.class = 'waiting' and a.status in ('created', 'pending', 'unknown', 'requires_action') and a.currency = l.currency
  and l.type in ('charge', 'refund') and l.gross = case l.type when 'charge' then a.amount else -a.amount end
  and (l.processor, l.line_id) > (%(after_processor)s, %(after_line)s)
order by l.processor, l.line_id limit %(limit)s;

-- name: due_keep
-- store: lines that owners have to be told, in the transaction that keeps the lines.
insert into settlement_due (processor, report_id, lines, line_count)
values (%(processor)s, %(report_id)s, %(lines)s, cardinality(%(lines)s::text[]));

-- name: due_until
-- posting: the last list there is. Primary key, from the right.
select coalesce(max(id), 0) from settlement_due;

-- name: due_lists
-- posting: the next lists up to one, of about as many lines as are told at once. Primary key.
select id from (
    select id, sum(line_count) over (order by id) - line_count as before
    from (select id, line_count from settlement_due where id > %(after)s and id <= %(until)s order by id limit %(limit)s) next
) l
where before < %(limit)s order by id;

-- name: postings_due
-- What the owners have to be told, or told again. Primary keys.
select l.processor, l.line_id, l.type, l.operation_id, l.currency, coalesce(l.posted_gross, l.gross),
       coalesce(l.posted_fee, l.fee), l.posted_difference, l.net, l.net_currency, l.finding, l.matched, l.intent_id,
       l.attempt, l.counterpart, l.told
from settlement_due d
cross join lateral unnest(d.lines) as listed (line_id)
join settlement_line l on l.processor = d.processor and l.line_id = listed.line_id
where d.id = any(%(ids)s) and l.posting = 'due'
order by l.processor, l.line_id;

-- name: refused_tell_anew
-- posting: what owners of an earlier release refused because of its accounts is told once more. What a person works on
-- stays as it is. Index settlement_discrepancy_open.
with known as (
    update settlement_discrepancy d set state = 'resolved', resolved_at = clock_timestamp()
    from settlement_line l
    where d.state = 'open' and d.class = 'posting_refused' and l.processor = d.processor and l.line_id = d.subject
      and l.posting = 'refused' and l.type in ('exchange', 'other') and l.told = 1
      and not exists (select 1 from repair_case c where c.kind = 'settlement_difference'
                                                    and c.reference = d.reference and c.state = 'proposed')
    returning d.processor, d.subject, d.reference
), anew as (
    update settlement_line l set posting = 'due', told = l.told + 1
    from known k where l.processor = k.processor and l.line_id = k.subject
    returning l.processor, l.report_id, l.line_id
), listed as (
    insert into settlement_due (processor, report_id, lines, line_count)
    select processor, report_id, array_agg(line_id), count(*) from anew group by processor, report_id
)
select reference from known;

-- name: fees_unchecked
-- posting: lines whose fee owners book with the line, in one posting or another, that were not looked for yet; the last
-- column says whether it is booked. It is not when an earlier version decided the line. What was refused moved nothing.
-- Index settlement_line_fee_unchecked, which holds no line that was looked for: a run costs what is new.
select l.processor, l.line_id, l.type, l.operation_id, l.currency, coalesce(l.posted_gross, l.gross),
       coalesce(l.posted_fee, l.fee), l.posted_difference, l.net, l.net_currency, l.finding, l.matched, l.intent_id,
       l.attempt, l.counterpart, l.told,
       l.posting = 'refused' or exists (
           select from ledger_txn t join ledger_entry e using (txn_id)
           where t.reference in (l.processor || ':' || l.line_id || ':fee', l.processor || ':' || l.line_id || ':duplicate')
             and starts_with(e.account_id, 'processor_fee_expense:'))
from settlement_line l
where not l.fee_checked and (l.finding = 'duplicate' or (l.type = 'refund' and l.finding is not null))
  and coalesce(l.posted_fee, l.fee) <> 0 and l.posting in ('decided', 'refused')
order by l.processor, l.line_id limit %(limit)s;

-- name: fees_checked
-- posting: lines whose fee is in the ledger, or need not be. Primary key.
update settlement_line l set fee_checked = true
from unnest(%(processors)s::text[], %(lines)s::text[]) as asked (processor, line_id)
where l.processor = asked.processor and l.line_id = asked.line_id;

-- name: due_told
-- posting: lists that were told, after postings_done. What no owner decided stands in a list behind all others, so that it
-- never hides them. Primary keys.
with told as (
    delete from settlement_due where id = any(%(ids)s) returning id, processor, report_id, lines
)
insert into settlement_due (processor, report_id, lines, line_count)
select d.processor, d.report_id, array_agg(l.line_id order by l.line_id), count(*)
from told d
cross join lateral unnest(d.lines) as listed (line_id)
join settlement_line l on l.processor = d.processor and l.line_id = listed.line_id
where l.posting = 'due'
group by d.processor, d.report_id order by min(d.id);

-- name: postings_decided
-- What the owners said. Primary key, of a chunk of keys.
select i.merchant_id, i.key, i.status, i.response from unnest(%(scopes)s::text[], %(keys)s::text[]) as asked (scope, key)
join idempotency i on i.merchant_id = asked.scope and i.key = asked.key;

-- name: postings_done
-- posting: what was decided is due no more. Primary key.
update settlement_line l set posting = asked.posting
from unnest(%(processors)s::text[], %(lines)s::text[], %(postings)s::text[]) as asked (processor, line_id, posting)
where l.processor = asked.processor and l.line_id = asked.line_id and l.posting = 'due';

-- name: bank_payouts
-- Payouts that an entry may be: announced and not received; of its amount, or of its name. One that came back since may
-- have been received before: only by its name.
-- Index settlement_line_payout.
select p.processor, p.line_id, p.created, p.posted_gross,
       (p.line_id = any(%(names)s) or p.provider_ref = any(%(names)s) or p.reference = any(%(names)s)
        or p.batch = any(%(names)s) or p.report_id = any(%(names)s)) as is_named
from settlement_line p
where p.type = 'payout' and p.class = 'announced' and p.currency = %(currency)s
  and (p.posted_gross = %(amount)s or p.provider_ref = any(%(names)s) or p.line_id = any(%(names)s)
       or p.reference = any(%(names)s) or p.batch = any(%(names)s))
  and not exists (select 1 from settlement_line r where r.matched = p.line_id
                  and (r.counterpart = p.processor
                       or (r.type = 'payout_reversal' and r.processor = p.processor
                           and not (p.line_id = any(%(names)s) or p.provider_ref = any(%(names)s)))))
order by p.posted_gross = %(amount)s desc, p.line_id limit %(limit)s;

-- name: bank_payouts_taken_back
-- Payouts that were received and that an entry of the opposite amount names. Not again one that was taken back. Index
-- settlement_line_payout.
select p.processor, p.line_id from settlement_line p
where p.type = 'payout' and p.class = 'announced' and p.currency = %(currency)s and p.posted_gross = -%(amount)s
  and (p.line_id = any(%(names)s) or p.provider_ref = any(%(names)s))
  and exists (select from settlement_line r
              where r.matched = p.line_id and r.counterpart = p.processor and r.net = p.posted_gross)
  and not exists (select from settlement_line r
                  where r.matched = p.line_id and r.counterpart = p.processor and r.net = -p.posted_gross)
limit 2;

-- name: merchant_payouts
-- bank: our payouts that an entry names, with how many matched entries each has. Primary key; settlement_line_of.
select p.id, p.merchant_id, p.amount, p.currency, p.state,
       count(l.line_id) filter (where l.gross < 0), count(l.line_id) filter (where l.gross > 0)
from payout p
left join settlement_line l on l.matched = p.id and l.class = 'matched' and starts_with(l.counterpart, 'merchant:')
where p.id = any (%(names)s)
group by p.id order by p.id limit 2;

-- name: batch_payouts_named
-- bank_batches: what payouts of processors that a payment of a batch names are of. Scans those that were announced: the
-- rare case has no index.
select p.posted_gross from settlement_line p
where p.type = 'payout' and p.class = 'announced' and p.currency = %(currency)s
  and (p.line_id = any(%(names)s) or p.provider_ref = any(%(names)s))
limit 2;

-- name: batch_payouts_pending
-- bank_batches: our payouts that a batch of this day may be of, and that no entry was matched to. payout_pending.
select p.id, p.amount, (p.created_at at time zone 'UTC')::date
from payout p
where p.state = 'pending' and p.currency = %(currency)s
  and p.created_at >= %(booked_on)s::date - %(days)s and p.created_at < %(booked_on)s::date + 2
  and not exists (select 1 from settlement_line l
                  where l.matched = p.id and l.class = 'matched' and starts_with(l.counterpart, 'merchant:'))
order by p.created_at, p.id limit %(limit)s;

-- name: bank_lines_known
-- bank: the entry as an earlier statement brought it, and what stands in its place. Entries that were taken in before
-- contents were kept are known by their place, when what was kept of them is equal. settlement_line_content; primary key.
select line_id, class,
       coalesce(content = %(content)s, (gross, currency, created, reference)
                is not distinct from (%(amount)s::bigint, %(currency)s::text, %(created)s::text, %(reference)s::text))
from settlement_line
where processor = %(processor)s and (content = %(content)s or line_id = %(line_id)s);

-- name: processor_fees_active
-- contracts: the published contracts. policy_version_active.
select body from policy_version where kind = 'processor_fees' and state = 'active';

-- name: bank_rules_active
-- bank: the published rules. policy_version_active.
select body from policy_version where kind = 'bank_rules' and state = 'active';

-- name: bank_line_sort
-- bank: an entry that a rule knows now. Primary key.
update settlement_line set class = 'sorted', difference = 0, counterpart = %(rule)s, case_id = null
where processor = %(processor)s and line_id = %(line_id)s and class = 'bank_unmatched';

-- name: bank_line_keep
-- bank: an entry with what it was found to be.
insert into settlement_line (processor, line_id, report_id, line_no, type, reference, currency, gross, fee, net,
                             net_currency, created, class, difference, matched, counterpart, part_of, finding, posting,
                             content)
values (%(processor)s, %(line_id)s, %(report_id)s, %(line_no)s, %(type)s, %(reference)s, %(currency)s, %(amount)s, 0,
        %(amount)s, %(currency)s, %(created)s, %(class)s, %(difference)s, %(matched)s, %(counterpart)s, %(part_of)s, null,
        %(posting)s, %(content)s);

-- name: summary_matched
-- run: lines that were matched, ever.
select coalesce(sum(matched), 0)::bigint from settlement_report;

-- name: summary_discrepancies
-- Index settlement_discrepancy_open.
select class, reference, amount, currency, processor, subject, detail,
       (select c.id from repair_case c
        where c.kind = 'settlement_difference' and c.reference = d.reference and c.state <> 'resolved'),
       first_seen
from settlement_discrepancy d where state = 'open' order by first_seen, processor, subject, class;

-- name: report_discrepancies
-- file_result: what is open of one report: of itself, of its lines, of what in it could not be read, and of lines that it
-- told otherwise than an earlier one. settlement_discrepancy_open; primary keys.
select class, reference, amount, currency, processor, subject, detail,
       (select c.id from repair_case c
        where c.kind = 'settlement_difference' and c.reference = d.reference and c.state <> 'resolved'),
       first_seen
from settlement_discrepancy d
where state = 'open' and processor = %(processor)s
  and (subject = %(report_id)s or starts_with(subject, %(report_id)s || '#') or starts_with(subject, %(report_id)s || '@')
       or (starts_with(processor, 'bank:') and starts_with(subject, %(report_id)s || ':'))
       or exists (select from settlement_line l
                  where l.processor = d.processor and l.line_id = d.subject and l.report_id = %(report_id)s)
       or (class = 'changed_line'
           and exists (select from settlement_line_change c
                       where (c.processor, c.line_id, c.report_id) = (d.processor, d.subject, %(report_id)s))))
order by first_seen, subject, class;

-- name: summary_overdue
-- Money that moved longer ago than the horizon and stands in no report, and lines that wait as long.
select (select count(*) from processor_attempt a
        where a.status in ('captured', 'refunded') and a.settled_line is null
          and a.updated_at < now() - make_interval(days => %(horizon_days)s)
          and not exists (select 1 from settlement_line l where l.matched = a.operation_id))
     + (select count(*) from settlement_line l join settlement_report r using (processor, report_id)
        where l.class = 'waiting' and r.ingested_at < now() - make_interval(days => %(horizon_days)s));
