"""The spend of a lease: what a gateway knows of a key and its buckets, and the ring that decisions go to."""
