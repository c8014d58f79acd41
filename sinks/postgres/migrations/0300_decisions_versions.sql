-- Which version of its object a decision was made about: of a post, a medium or a user. Decisions from before do not say it.

alter table moderation_decision add column object_version bigint check (object_version >= 1);
comment on column moderation_decision.object_version is 'The version of the object that was current in the commit of the decision.';
