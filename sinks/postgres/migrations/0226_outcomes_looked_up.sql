-- The owner carries out an outcome that two persons vouch for only with its approval, which it reads in its own commit.
grant select on attempt_outcome_proposal to millrace_owner;
