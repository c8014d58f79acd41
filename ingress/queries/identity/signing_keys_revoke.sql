-- POST /v1/signing_keys/{id}/revoke, and the operator's: one transaction with its audit row; a word says what became of it.
select signing_key_revoke(%(id)s, %(merchant)s, %(actor)s, %(signed_by)s, %(evidence)s, %(operator)s, %(reason)s)
