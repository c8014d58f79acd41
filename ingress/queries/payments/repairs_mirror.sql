-- The mirrored entries of a posted transaction, for the template "reverse". Served by the unique index of references.
select repair_mirror(%(reference)s)::text
