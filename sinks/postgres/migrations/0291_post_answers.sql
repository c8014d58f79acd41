-- Direct answers to a post in the order of their times: a page of them reads no more than it shows, however many there are.
create index post_answers on post (reply_to, created_at, post_id) where reply_to is not null and state = 'published';
drop index post_replies;  -- its beginning
