-- The media origin asks whether the owner of a part was erased, before it takes its bytes.
grant select (user_id, state) on author to millrace_social_media;
