-- The case that a proposal is for: its processor and currency, as far as it says them. Primary key.
select processor, evidence ->> 'currency' from repair_case where id = %(id)s
