-- What was answered 202 may meet an object that waits for an operator: nothing is stored of it then, and its caller is
-- told so while the object waits. Null in the notes of an ingress of an earlier release.
alter table accepted_request add column aggregate_key text collate "C";
grant select on parked_aggregate to millrace_ingress;
