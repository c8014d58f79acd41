"""Double entry: the posting table of payments, postings of no payment, and the check that they balance."""
