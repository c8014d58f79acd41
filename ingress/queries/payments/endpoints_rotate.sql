-- POST /v1/webhook_endpoints/{id}/rotate_secret: one more secret; the one before signs on for a while by itself. Asked
-- twice (a lost connection), the second finds the first by its id.
with made as (
    insert into merchant_webhook_secret (id, endpoint_id, key_id, wrapped_key, ciphertext)
    select %(secret_id)s, e.id, %(key_id)s, %(wrapped_key)s, %(ciphertext)s
    from merchant_webhook_endpoint e
    where e.id = %(id)s and e.merchant_id = %(merchant)s and e.state <> 'deleted'
      and (select count(*) from merchant_webhook_secret s
           where s.endpoint_id = e.id and s.created_at > now() - %(overlap_s)s * interval '1 second') < %(secrets_max)s
    on conflict (id) do nothing
    returning endpoint_id
)
select endpoint_id from made
union all
select endpoint_id from merchant_webhook_secret where id = %(secret_id)s
