-- Search leaves out what nobody sees: a soft hyphen, a joiner or a selector within a word made two words of it.

-- As 0116 has it, and the code points that Unicode calls default-ignorable go with the accents.
create or replace function words_folded(said text) returns text language sql immutable parallel safe
return normalize(replace(translate(lower(regexp_replace(normalize(said, NFKD),
           '[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f'
           '\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8'
           '\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]',
           '', 'g')), 'ς', 'σ'), 'ß', 'ss'), NFKC);

-- The index is made anew of what posts say. A space of no width ends a word in Khmer, Burmese and Thai, and a non-joiner parts
-- what a Persian word is made of: beside the whole, the parts are found as well, as before.
drop index post_words;
create or replace function social_words(said text) returns tsvector language sql immutable parallel safe
return to_tsvector('simple', regexp_replace(
           words_folded(said)
           || case when said ~ '[\u200b\u200c]' then ' ' || words_folded(translate(said, U&'\200b\200c', '  ')) else '' end,
           '[^[:alnum:]]+', ' ', 'g'));
create index post_words on post using gin (social_words(text)) where state = 'published';

-- All of the words that somebody asks for, the parts of such a word for the whole.
create or replace function social_words_asked(said text) returns tsquery language sql immutable parallel safe
return case when said ~ '[\u200b\u200c]' then
           plainto_tsquery('simple', regexp_replace(words_folded(said), '[^[:alnum:]]+', ' ', 'g'))
           || plainto_tsquery('simple', regexp_replace(words_folded(translate(said, U&'\200b\200c', '  ')), '[^[:alnum:]]+', ' ', 'g'))
       else plainto_tsquery('simple', regexp_replace(words_folded(said), '[^[:alnum:]]+', ' ', 'g')) end;
