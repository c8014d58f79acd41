-- Forgets old notes, once an hour. Served by accepted_request_age.
delete from accepted_request where accepted_at < now() - %(age_s)s * interval '1 second'
