-- When the post was published that somebody reposts, beside the repost: in a home it stands there. So homes take the newest few
-- reposts of each of the followed by an index, and do not ask the post of each one that there ever was.
alter table reaction add column post_at bigint;
comment on column reaction.post_at is 'Of a repost: created_at of its post, which never changes.';

-- Whoever writes it, an owner of an earlier release too.
create function social_note_post_at() returns trigger language plpgsql set search_path = pg_catalog, public as $$
begin
    new.post_at := (select p.created_at from post p where p.post_id = new.post_id);
    return new;
end $$;
create trigger repost_has_a_place before insert on reaction for each row
    when (new.kind = 'repost') execute function social_note_post_at();

update reaction r set post_at = p.created_at from post p where p.post_id = r.post_id and r.kind = 'repost';

create index reaction_reposted on reaction (user_id, is_pushed, post_at, post_id) where state = 'active' and kind = 'repost';
drop index reaction_pulled;
