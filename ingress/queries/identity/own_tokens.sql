-- Which of these card tokens belong to these merchants (before a command is taken). Served by the primary key of vault.card.
select w.n
from unnest(%(ns)s::int[], %(merchants)s::text[], %(tokens)s::text[]) as w (n, merchant_id, token)
join vault.token_public t on t.id = w.token and t.merchant_id = w.merchant_id
