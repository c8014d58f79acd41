-- What an erasure takes of appeals: without it each looks at all that ever were.
create index moderation_appeal_of_author on moderation_appeal (author_id);
