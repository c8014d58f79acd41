-- What has come of the appeal against a decision. Primary key.
select state from moderation_appeal where decision_id = %(id)s::text
