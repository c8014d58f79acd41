-- The console finds what persons decided about cases by its id, and shows it in the story of a payment.
grant select on case_closing, attempt_outcome_proposal to millrace_console;
