-- Cases and repairs as an operator at a shell sees them, and the finishing of what two persons decided.

-- name: cases_page
-- `millrace cases list`: newest first; index repair_case_age.
select c.id, c.kind, c.reference, c.processor, c.state, c.opened_at, c.resolved_at, c.resolved_by, c.note
from repair_case c
where (%(every_state)s or c.state <> 'resolved') and (%(kind)s::text is null or c.kind = %(kind)s)
order by c.opened_at desc, c.id desc limit %(limit)s;

-- name: case_by_id
-- `millrace cases show`. Primary key. Of a dispute whose deadline was near also how it stands now: it may have its answer.
select c.id, c.kind, c.reference, c.processor, c.state,
       c.evidence || coalesce((select jsonb_build_object('state_now', d.state, 'evidence_state_now', d.evidence_state)
                               from dispute d where c.kind = 'dispute_due' and d.id = c.reference), '{}') as evidence,
       c.opened_at, c.resolved_at, c.resolved_by, c.note
from repair_case c where c.id = %(id)s;

-- name: aged_open
-- A sweep: money that waits for longer than the horizon gets a case, one for each account. What is left of a balance after
-- all that came within the horizon is what is older. Sorted, as those below: two sweeps at once wait, and never crosswise.
insert into repair_case (id, kind, reference, processor, evidence)
select 'case_' || substr(encode(sha256(convert_to('aged' || a.account_id || clock_timestamp(), 'UTF8')), 'hex'), 1, 26),
       'aged_balance', a.account_id, nullif(split_part(a.account_id, ':', 2), a.currency),
       jsonb_build_object('balance', a.balance, 'older_than_horizon', a.aged, 'currency', a.currency)
from (
    select b.account_id, b.currency, b.balance,
           abs(b.balance) - coalesce(sum(greatest(sign(b.balance) * (e.debit - e.credit), 0)), 0) as aged
    from account_total b
    left join ledger_entry e on e.account_id = b.account_id
                            and e.effective_at >= now() - make_interval(days => %(horizon_days)s)
    where b.account_id ~ '^(recon_suspense|rounding|payout_in_transit):' and b.balance <> 0
    group by b.account_id, b.currency, b.balance
) a
where a.aged > 0
  and not exists (select 1 from repair_case o
                  where o.state <> 'resolved' and o.reference = a.account_id)
order by a.account_id
on conflict do nothing
returning id, reference;

-- name: aged_payouts_open
-- A sweep: a payout to a merchant of which no bank has said anything for too long. Index payout_pending.
insert into repair_case (id, kind, reference, evidence)
select 'case_' || substr(encode(sha256(convert_to('payout' || p.id || clock_timestamp(), 'UTF8')), 'hex'), 1, 26),
       'aged_payout', p.id,
       jsonb_build_object('merchant', p.merchant_id, 'amount', p.amount, 'currency', p.currency, 'created_at', p.created_at)
from payout p
where p.state = 'pending' and p.created_at < now() - make_interval(days => %(payout_horizon_days)s)
  and not exists (select 1 from repair_case o where o.state <> 'resolved' and o.reference = p.id)
order by p.id
on conflict do nothing
returning id, reference;

-- name: aged_disputes_open
-- A sweep: a dispute that ended otherwise than lost, and whose money the processor did not give back. Of one
-- that persons have answered for since, nothing more is asked. Index dispute_money_away.
insert into repair_case (id, kind, reference, processor, evidence)
select 'case_' || substr(encode(sha256(convert_to('dispute' || d.id || clock_timestamp(), 'UTF8')), 'hex'), 1, 26),
       'aged_dispute', d.id, d.processor,
       jsonb_build_object('merchant', d.merchant_id, 'payment_intent', d.intent_id, 'state', d.state, 'amount', d.amount,
                          'currency', d.currency, 'provider_ref', d.provider_ref, 'ended_at', d.updated_at)
from dispute d
where d.funds = 'withdrawn' and d.state in ('won', 'prevented', 'warning_closed')
  and d.updated_at < now() - make_interval(days => %(horizon_days)s)
  and not exists (select 1 from repair_case o
                  where o.reference = d.id and o.kind <> 'dispute_due'
                    and (o.state <> 'resolved' or o.resolved_at >= d.updated_at))
order by d.id
on conflict do nothing
returning id, reference;

-- name: disputes_due_open
-- A sweep: a dispute that wants an answer soon, or wanted it, and of which no processor has taken evidence.
-- One case for each deadline: what persons closed is asked again when another one nears. Index dispute_evidence_due.
insert into repair_case (id, kind, reference, processor, evidence)
select 'case_' || substr(encode(sha256(convert_to('due' || d.id || clock_timestamp(), 'UTF8')), 'hex'), 1, 26),
       'dispute_due', d.id, d.processor,
       jsonb_build_object('merchant', d.merchant_id, 'payment_intent', d.intent_id, 'state', d.state, 'amount', d.amount,
                          'currency', d.currency, 'provider_ref', d.provider_ref, 'evidence_state', d.evidence_state,
                          'evidence_due_by', d.evidence_due_by)
from dispute d
where d.state in ('warning_needs_response', 'needs_response', 'appeal_needs_response')
  and d.evidence_state is distinct from 'submitted'
  and d.evidence_due_by < now() + make_interval(days => %(due_days)s)
  and not exists (select 1 from repair_case o
                  where o.reference = d.id and o.kind = 'dispute_due'
                    and (o.state <> 'resolved' or (o.evidence->>'evidence_due_by')::timestamptz = d.evidence_due_by))
order by d.id
on conflict do nothing
returning id, reference;

-- name: sweep_turn
-- The sweep that runs by itself: whether it is this process's turn, until its transaction ends.
select pg_try_advisory_xact_lock(%(lock)s);

-- name: sweep_last
-- When it was last done, as Unix time, and how long ago; both null when never. Read after the lock was taken: the one who
-- had it before has committed by then. Primary key.
select extract(epoch from r.done_at)::float8, extract(epoch from clock_timestamp() - r.done_at)::float8
from scheduled_run r where r.name = 'case_sweep';

-- name: sweep_done
-- Its end: the time of the last one, and a row of the audit log.
select case_sweep_done(%(process)s, %(opened)s);

-- name: repairs_page
-- `millrace repair list`: newest first.
select p.id, p.case_id, p.template, p.state, p.author, p.decided_by, p.note, p.txn_id, p.proposed_at, p.posted_at, p.refusal
from repair_proposal p
where %(every_state)s or p.state in ('proposed', 'approved')
order by p.proposed_at desc, p.id desc limit %(limit)s;

-- name: repair_by_id
-- `millrace repair show`. Primary key. The preview is of now until somebody decides.
select p.id, p.case_id, p.template, p.entries, p.note, p.author, p.reverses, p.state,
       case when p.state = 'proposed' then repair_preview(p.entries) else p.preview end as preview,
       p.proposed_at, p.decided_by, p.decided_at, p.decision_note, p.txn_id, p.refusal, p.posted_at
from repair_proposal p where p.id = %(id)s;

-- name: repairs_unfinished
-- resume: approved and not known to be posted, oldest first; index repair_proposal_unfinished.
select p.id, p.template, p.entries, p.note, p.author, p.decided_by
from repair_proposal p
where p.state = 'approved' and p.decided_at <= clock_timestamp() - %(waiting_s)s * interval '1 second'
order by p.decided_at limit %(limit)s;

-- name: repair_settle
-- resume: takes over what the owner decided, if it has.
select repair_settle(%(id)s);

-- name: outcomes_unfinished
-- resume: outcomes of attempts that two persons took over, not known to be recorded, oldest first; index
-- attempt_outcome_unfinished.
select o.id, o.operation_id, o.intent_id, o.attempt, o.processor, o.fact
from attempt_outcome_proposal o
where o.state = 'approved' and o.decided_at <= clock_timestamp() - %(waiting_s)s * interval '1 second'
order by o.decided_at limit %(limit)s;

-- name: money_unfinished
-- resume: money by hand that two persons decided on, not known to be done, oldest first; index money_proposal_unfinished.
select p.id, p.operation, p.object, p.payload
from money_proposal p
where p.state = 'approved' and p.decided_at <= clock_timestamp() - %(waiting_s)s * interval '1 second'
order by p.decided_at limit %(limit)s;

-- name: money_settle
-- resume: takes over what the owner decided of money by hand, if it has.
select money_settle(%(id)s);

-- name: outcome_settle
-- resume: takes over what the owner decided of an outcome, if it has.
select attempt_outcome_settle(%(id)s);
