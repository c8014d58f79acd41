-- GET /v1/operations/{request_id}: parked and not resolved. Served by dead_letter_request.
select 1 from dead_letter
where request_id = %(request_id)s and merchant_id = %(merchant)s and state = 'open'
limit 1
