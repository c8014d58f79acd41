-- How many posts have all of these words, as far as somebody counts. Served by post_words.
select count(*) from (
    select from post c
    where c.state = 'published' and social_words(c.text) @@ social_words_asked(%(words)s::text)
    limit %(most)s::int) as found
