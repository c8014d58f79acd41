-- POST /v1/signature_requirement, and the operator's: one transaction with its audit row; a word says what became of it.
select signature_requirement_set(%(merchant)s, %(requirement)s, %(actor)s, %(signed_by)s, %(evidence)s, %(operator)s,
                                 %(reason)s)
