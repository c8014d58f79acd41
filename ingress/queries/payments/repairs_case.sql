-- The case that a proposal is for: its processor and currency, as far as it says them, and its kind. Primary key.
select processor, evidence ->> 'currency', kind from repair_case where id = %(id)s
