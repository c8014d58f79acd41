-- GET /v1/operations/{request_id}: answered 202, not decided, and its owner reads behind it. One snapshot: a position moves
-- with what is decided below it. What an operator lets try again lies in the topic anew. Served by the primary keys, and by
-- dead_letter_request.
select 1 from partition_owner
where topic = %(topic)s and partition = %(partition)s and next_offset - offset_base > %(offset)s
  and not exists (select from idempotency where merchant_id = %(merchant)s and key = %(key)s)
  and not exists (select from dead_letter
                  where request_id = %(request_id)s and merchant_id = %(merchant)s and state = 'retried')
