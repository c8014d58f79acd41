-- Why a refund is pending. A view knows the columns that its table had when it was made, so it is made again.
alter table refunds add column if not exists pending_reason LowCardinality(Nullable(String));

create or replace view refunds_current as
select * from refunds order by id, version desc limit 1 by id;
