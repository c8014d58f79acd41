-- An edit takes back what others were told of being mentioned: of a post with a million likes, these are few.
create index notification_mentions on notification (post_id) where kind = 'mention';
