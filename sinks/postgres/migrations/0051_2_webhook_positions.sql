-- Webhooks to merchants follow events as every follower does: their positions move, and so does the right to store them.
insert into stream_position (follower, topic, partition, next_offset, last_seq)
select 'merchant_webhooks', 'events.payments.v1', partition, next_offset, last_seq from merchant_webhook_position;
-- A sender of the release before could go on storing positions that nobody reads: without its tables it ends instead.
drop table merchant_webhook_position, merchant_webhook_reader;
