-- POST /v1/{kind}/policies: one transaction with its audit row; a word says what became of it. And whether its author
-- proposed the same before: this statement's own snapshot is older than what the function writes.
select policy_publish(%(kind)s, %(expected)s, %(body)s, %(author)s),
       exists (select from policy_proposal
               where (kind, expected, author, body) = (%(kind)s, %(expected)s, %(author)s, %(body)s))
