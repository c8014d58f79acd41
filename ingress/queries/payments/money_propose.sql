-- POST /v1/accounts/{merchant}/convert_currency and its like: a proposal for another person.
select money_propose(%(id)s, %(operation)s, %(object)s, %(payload)s::jsonb, %(author)s, %(hash)s)
