-- The names that a medium's renditions had outlast its manifest: whoever proves that it is gone asks for its very URLs.
alter table media add column rendition_names text[] not null default '{}';
comment on column media.rendition_names is 'Names of its renditions in the paths of the media origin, kept when the manifest ends.';
create function social_rendition_names(manifest text) returns text[] language sql immutable as $$
    select coalesce(array_agg(r.one ->> 'name' order by r.n), '{}')
    from jsonb_array_elements(manifest::jsonb -> 'renditions') with ordinality as r (one, n)
$$;
create function social_keep_rendition_names() returns trigger language plpgsql as $$
begin
    new.rendition_names := social_rendition_names(new.manifest);
    return new;
end $$;
update media set rendition_names = social_rendition_names(manifest) where manifest is not null;
create trigger media_has_renditions before insert or update of manifest on media
    for each row when (new.manifest is not null) execute function social_keep_rendition_names();
