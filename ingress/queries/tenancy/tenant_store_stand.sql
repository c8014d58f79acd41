-- POST /v1/placements/{store}/drain and /activate, audited with it. As many rows as there are stores.
select tenant_store_stand(%(store)s, %(stands)s, %(soak_s)s::bigint, %(person)s, %(note)s)
