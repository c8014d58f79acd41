-- POST /v1/webhook_endpoints: endpoint and secret together, unless the merchant has this URL or too many. Asked twice (a
-- lost connection), the second finds the first by its id.
with made as (
    insert into merchant_webhook_endpoint (id, merchant_id, url, events, description)
    select %(id)s, %(merchant)s, %(url)s, %(events)s::text[], %(description)s
    where (select count(*) from merchant_webhook_endpoint where merchant_id = %(merchant)s and state <> 'deleted')
          < %(endpoints_max)s
    on conflict do nothing
    returning id
), signed as (
    insert into merchant_webhook_secret (id, endpoint_id, key_id, wrapped_key, ciphertext)
    select %(secret_id)s, id, %(key_id)s, %(wrapped_key)s, %(ciphertext)s from made
    returning endpoint_id
)
select endpoint_id from signed
union all
select endpoint_id from merchant_webhook_secret where id = %(secret_id)s
