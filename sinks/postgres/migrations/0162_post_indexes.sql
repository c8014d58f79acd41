-- What fan-out brings of an author, newest first, for homes that are built anew and for backfills: neither private posts nor
-- those that readers pull are read on the way to it, however many there are.
create index post_pushed on post (author_id, created_at, post_id)
    where state = 'published' and is_pushed and visibility <> 'private';

-- What an erasure took: whose homes may still hold it.
create index post_deleted on post (author_id) where state = 'deleted';
