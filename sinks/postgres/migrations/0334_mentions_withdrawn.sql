-- Who is named no more by a post that was edited was told so all the same, and still is. Users are named as
-- post_decisions.mentioned finds them; from now on an edit takes back what holds no more.
delete from notification n using post p
where n.kind = 'mention' and p.post_id = n.post_id and p.version > 1
  and not exists (select from regexp_matches(p.text, '(?<![A-Za-z0-9_-])@([A-Za-z0-9_-]{1,64})', 'g') as named
                  where named[1] = n.user_id);
