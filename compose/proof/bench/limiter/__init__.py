"""The limiter: in process, over frames, beside other libraries, and while the broker stands still."""
