-- A merchant's own name of a payment. A view knows the columns that its table had when it was made, so it is made again.
alter table payment_intents add column if not exists reference Nullable(String);

create or replace view payment_intents_current as
select * from payment_intents order by id, version desc limit 1 by id;
