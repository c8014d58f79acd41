"""What is signed, digested or sealed, in the one form that every layer uses."""
