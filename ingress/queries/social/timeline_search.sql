-- The next posts with all of these words below a place that the viewer may see, and no others: a page that were short, or
-- had a next one, for posts that are hidden would say that there are some. Places are sorted first, and as many of them
-- judged as a page needs (offset 0 keeps the two apart). Of words that many posts have, those since a moment alone are read,
-- by post_words and post_by_time together; of others all, by post_words alone (+ 0: more posts have the times than the words).
-- Symbols are in no index: they are looked for in what has the words.
select p.created_at, true, null,
       (select json_agg(json_build_array(l.label, l.policy_version, l.expires_at, l.decision_id) order by l.version desc)
        from moderation_label l where l.object_id = p.post_id) as labels,
       p.post_id, p.author_id, p.visibility, p.text, p.version, p.state, p.media_ids, p.reply_to, p.root_id, p.quote_of,
       p.is_pushed, p.created_at, p.edited_at
from (select at, post_id from (
          select c.created_at as at, c.post_id from post c
          where %(since)s::bigint is null
            and c.state = 'published'
            and social_words(c.text) @@ social_words_asked(%(words)s::text)
            and (%(symbols)s::text[] = '{}' or not exists (
                    select from unnest(%(symbols)s::text[]) as asked (symbol)
                    where strpos(words_folded(c.text), words_folded(asked.symbol)) = 0))
            and (c.created_at + 0, c.post_id) < (%(at)s::bigint, %(id)s::text)
          union all
          select c.created_at, c.post_id from post c
          where %(since)s::bigint is not null
            and c.state = 'published'
            and social_words(c.text) @@ social_words_asked(%(words)s::text)
            and (%(symbols)s::text[] = '{}' or not exists (
                    select from unnest(%(symbols)s::text[]) as asked (symbol)
                    where strpos(words_folded(c.text), words_folded(asked.symbol)) = 0))
            and c.created_at between %(since)s::bigint and %(at)s::bigint
            and (c.created_at, c.post_id) < (%(at)s::bigint, %(id)s::text)) as any_of
      order by at desc, post_id desc offset 0) as found
join post p using (post_id)
where exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))
  and not exists (select from moderation_current m
                  where m.object_id = any (array[p.post_id, p.author_id] || p.media_ids) and m.effect = 'limit')
order by found.at desc, found.post_id desc limit %(count)s::int
