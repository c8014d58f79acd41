-- Appeals are listed over the API, by cursor: those of their author, and for moderators all.

create index moderation_appeal_of_author_newest on moderation_appeal (author_id, created_at, appeal_id);
create index moderation_appeal_newest on moderation_appeal (created_at, appeal_id);
drop index moderation_appeal_of_author;  -- the first one does its work
