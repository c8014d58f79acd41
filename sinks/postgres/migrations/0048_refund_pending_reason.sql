-- Why a refund is pending, exactly while it is. Of refunds that were pending before, nobody kept it.
alter table refund add column pending_reason text collate "C";
alter table refund add constraint refund_pending_reason_check check (
    pending_reason is null
    or (state = 'pending' and pending_reason in ('processing', 'insufficient_funds', 'charge_pending')));
