-- POST /v1/repairs/{id}/reverse: a new proposal with mirrored entries, in a case of its own.
select repair_reverse(%(id)s, %(repair)s, %(case)s, %(note)s, %(author)s, %(hash)s)
