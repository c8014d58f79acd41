-- Who judges an object, and so looks at what others may not see of it: who has its case, or may decide an appeal that waits.
-- Primary key of cases, and (object_id, version) of decisions.
create function moderation_judges(person text, object text) returns boolean
language sql stable parallel safe as $$
    select exists (select from moderation_case c
                   where c.object_id = object and c.state = 'assigned' and c.assignee = person)
        or exists (select from moderation_decision d join moderation_appeal a using (decision_id)
                   where d.object_id = object and a.state = 'open' and person not in (d.moderator, a.author_id))
$$;
