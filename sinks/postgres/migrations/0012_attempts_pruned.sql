-- Finished dispatch rows leave after a while: the attempt itself stays with its payment.

create index attempt_dispatch_done on attempt_dispatch (updated_at) where status = 'done';
grant delete on attempt_dispatch to millrace_worker;
