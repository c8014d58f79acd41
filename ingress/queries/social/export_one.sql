-- An export of one's own. Primary key.
select export_id from export where export_id = %(id)s::text and user_id = %(user_id)s::text
