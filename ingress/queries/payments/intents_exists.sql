-- Whether there is such a payment, whoever's it is: for operators. Primary key.
select 1 from payment_intent where id = %(id)s
