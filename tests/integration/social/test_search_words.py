"""Words of posts and of who searches are folded alike: case, accents and width keep nobody from finding a post."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.migrated import database_before, upgrade

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
FIRST_OF_THIS_RELEASE = "0116_social_search_folded.sql"
_FOUND = "select social_words(%s) @@ social_words_asked(%s)"
_NEW_POST = (
    "insert into post (post_id, author_id, visibility, text, version, state, root_id, is_pushed, created_at)"
    " values (%(id)s, 'u_1', 'public', %(text)s, 1, 'published', %(id)s, true, 1)"
)

#: what is one word to who searches
SAME = [
    ("Caf\u00e9 cre\u0300me", ["cafe", "CAFE\u0301", "caf\u00c9 CR\u00c8ME", "\uff43\uff41\uff46\uff45"]),
    ("Stra\u00dfe \u1e9e", ["strasse", "STRASSE", "stra\u00dfe", "ss"]),
    ("\u039f\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd\u03c2", ["\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3"]),
    ("\u0130stanbul \ufb01sh", ["istanbul", "ISTANBUL", "fish"]),
    ("\u0401\u043b\u043a\u0430", ["\u0435\u043b\u043a\u0430", "\u0415\u041b\u041a\u0410"]),
    ("\uff33\uff30\uff21\uff2d \uff71\uff72\uff73", ["spam", "\u30a2\u30a4\u30a6"]),
    ("\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", ["\u05e9\u05dc\u05d5\u05dd"]),
    ("\u0645\u064f\u062d\u064e\u0645\u0651\u064e\u062f", ["\u0645\u062d\u0645\u062f"]),
    ("Vi\u1ec7t Nam", ["viet nam", "VIE\u0323\u0302T"]),
    ("\u6771\u4eac \u30ab\u30bf\u30ab\u30ca", ["\u6771\u4eac", "\uff76\uff80\uff76\uff85"]),
    ("\ud55c\uad6d\uc5b4", ["\ud55c\uad6d\uc5b4", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165"]),
    ("\u304c\u3063\u3053\u3046", ["\u304b\u3099\u3063\u3053\u3046"]),
    ("\u0e44\u0e17\u0e22", ["\u0e44\u0e17\u0e22"]),
    ("e\u0301", ["e", "\u00c9"]),
    ("\u210cello", ["hello"]),  # a letter whose plain form has case
]
#: what is not: other letters, and marks that make other words
OTHERS = [("\u304c\u3063\u3053\u3046", "\u304b\u3063\u3053\u3046"), ("o", "\u00f8"), ("cafe", "caf"), ("", "a")]


@pytest.fixture(scope="module")
def connection(stack: World) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as made:
        yield made


def found(connection: psycopg.Connection[Any], text: str, asked: str) -> bool:
    (row,) = connection.execute(_FOUND, (text, asked)).fetchall()
    return bool(row[0])


@pytest.mark.parametrize(("text", "asked"), [(text, word) for text, words in SAME for word in words])
def test_a_word_is_found_however_it_is_written(connection: psycopg.Connection[Any], text: str, asked: str) -> None:
    assert found(connection, f"before, {text}! after", asked)
    assert found(connection, f"before, {asked}! after", asked)


@pytest.mark.parametrize(("text", "asked"), OTHERS)
def test_another_word_is_not_found(connection: psycopg.Connection[Any], text: str, asked: str) -> None:
    assert not found(connection, text, asked)


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0", categories=("L", "Mn", "Nd")), max_size=12))
def test_folding_is_settled_and_any_form_of_a_text_is_folded_alike(
    connection: psycopg.Connection[Any], text: str
) -> None:
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    (row,) = connection.execute(
        "select array_agg(distinct words_folded(f)), array_agg(distinct words_folded(words_folded(f)))"
        " from unnest(%s::text[]) f",
        (forms,),
    ).fetchall()
    assert len(row[0]) == 1
    assert row[0] == row[1]


def test_what_was_written_before_the_migration_is_found_by_the_index(stack: World) -> None:
    with database_before(stack.addresses.postgres_superuser_dsn, FIRST_OF_THIS_RELEASE) as connection:
        connection.execute("insert into author (user_id) values ('u_1')")
        connection.execute(_NEW_POST, {"id": "po_1", "text": "Caf\u00e9 \uff33\uff30\uff21\uff2d"})
        upgrade(connection, FIRST_OF_THIS_RELEASE)
        connection.execute(_NEW_POST, {"id": "po_2", "text": "another cafe"})
        connection.execute("set enable_seqscan = off; drop index post_of_author, post_pulled, post_public")
        asked = "select post_id from post where state = 'published' and social_words(text) @@ social_words_asked(%s)"
        plan = "\n".join(line for (line,) in connection.execute(f"explain {asked}", ("CAFE",)).fetchall())
        assert "post_words" in plan, plan
        assert "Index Cond" in plan, plan
        assert "Filter" not in plan, plan
        for words, ids in (("CAF\u00c9", ["po_1", "po_2"]), ("spam cafe", ["po_1"]), ("tea", [])):
            assert sorted(row[0] for row in connection.execute(asked, (words,)).fetchall()) == ids
