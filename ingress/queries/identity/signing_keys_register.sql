-- POST /v1/signing_keys: one transaction with its audit row; a word says what became of it.
select signing_key_register(%(id)s, %(merchant)s, %(public_key)s, %(description)s, %(actor)s, %(signed_by)s, %(evidence)s,
                            %(keys_max)s)
