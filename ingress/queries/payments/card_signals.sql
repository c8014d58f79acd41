-- Fingerprint and network of the caller's own card tokens. Primary key of vault.card.
select c.id, c.fingerprint, c.network from vault.card_signals c
where c.id = any (%(tokens)s::text[]) and c.merchant_id = %(merchant)s
