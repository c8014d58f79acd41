"""The stream of identities: one that several gateways charged out of leases is given back but once."""
