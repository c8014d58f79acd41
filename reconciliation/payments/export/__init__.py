"""The ledger in the language of other bookkeeping programs: a witness that shares no code with us."""
