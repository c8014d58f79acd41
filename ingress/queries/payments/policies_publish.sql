-- POST /v1/{kind}/policies: one transaction with its audit row; a word says what became of it.
select policy_publish(%(kind)s, %(expected)s, %(body)s, %(author)s)
