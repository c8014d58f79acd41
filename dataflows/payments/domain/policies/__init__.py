"""What published policies say: the terms of fees, the rules of risk, and all that is in force."""
