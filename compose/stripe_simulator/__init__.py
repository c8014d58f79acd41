"""An account at Stripe to be tried against: their API as far as our adapter speaks it, with a durable book."""
