-- Search folds what people write in more ways than one: case, width and other forms of compatibility (NFKC), and accents. On
-- both sides by one function, so a word is found however it was written or is asked for.

-- Marks that many leave out: the general ones (Latin, Greek, Cyrillic), points of Hebrew, vowels of Arabic. Marks of other
-- scripts make other words (the dakuten of kana, vowels of Devanagari) and stay. Case is folded as Unicode's full folding
-- does, as far as words of a language differ by it.
create function words_folded(said text) returns text language sql immutable parallel safe
return normalize(replace(translate(lower(regexp_replace(normalize(said, NFKD),
           '[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]',
           '', 'g')), 'ς', 'σ'), 'ß', 'ss'), NFKC);

-- The index is made anew of what posts say: it holds nothing that stands nowhere else. What a process of an earlier release asks for
-- is found as before where it has neither accents nor width.
drop index post_words;
create or replace function social_words(said text) returns tsvector language sql immutable parallel safe
return to_tsvector('simple', regexp_replace(words_folded(said), '[^[:alnum:]]+', ' ', 'g'));
create index post_words on post using gin (social_words(text)) where state = 'published';

-- All of the words that somebody asks for.
create function social_words_asked(said text) returns tsquery language sql immutable parallel safe
return plainto_tsquery('simple', regexp_replace(words_folded(said), '[^[:alnum:]]+', ' ', 'g'));
