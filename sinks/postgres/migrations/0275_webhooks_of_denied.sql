-- Webhooks of a merchant that is not let in wait: the sender looks who that is.
grant select (kind, name, issued_before) on access_denied to millrace_worker;
