"""Words of posts and of who searches are folded alike: case, accents and width keep nobody from finding a post.

And costly words keep nobody waiting who does not search.
"""

from __future__ import annotations

import asyncio
import unicodedata
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress.http.cursors import Cursors
from ingress.http.store import Store
from ingress.social.posts import Posts
from ingress.social.searches import Searches
from ingress.social.timelines import Timelines
from schemas import errors
from schemas.fields import legible_text
from schemas.social import limits
from tests.each import each
from tests.eventually import eventually
from tests.migrated import database_before, upgrade

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers
BRAILLE_BLANK = 0x2800
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
    ("co\u00adoperate jo\u2060in a\ufe0fb\U000e0061c", ["cooperate", "COOPERATE join", "abc"]),
    ("pay\u200dpal", ["paypal"]),
    ("zero\u200bwidth", ["zerowidth", "zero", "width"]),
    ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", ["\u0645\u06cc\u062e\u0648\u0627\u0647\u0645"]),
    ("a\U0001f469\u200d\U0001f373b \u2764\ufe0f 1\ufe0f\u20e3", ["a", "b", "1"]),  # symbols part words
]
#: what is not: other letters, and marks that make other words
OTHERS = [
    ("a\U0001f469\u200d\U0001f373b", "ab"),
    ("zero width", "zerowidth"),
    ("pay\u200dpal", "pay"),
    ("\u304c\u3063\u3053\u3046", "\u304b\u3063\u3053\u3046"),
    ("o", "\u00f8"),
    ("cafe", "caf"),
    ("", "a"),
]


@pytest.fixture(scope="module")
def connection(stack: World) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as made:
        yield made


def found(connection: psycopg.Connection[Any], text: str, asked: str) -> bool:
    (row,) = connection.execute(_FOUND, (text, asked)).fetchall()
    return bool(row[0])


@each(("text", "asked"), [(text, word) for text, words in SAME for word in words])
def test_a_word_is_found_however_it_is_written(connection: psycopg.Connection[Any], text: str, asked: str) -> None:
    assert found(connection, f"before, {text}! after", asked)
    assert found(connection, f"before, {asked}! after", asked)


@each(("text", "asked"), OTHERS)
def test_another_word_is_not_found(connection: psycopg.Connection[Any], text: str, asked: str) -> None:
    assert not found(connection, text, asked)


@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="\0", categories=("L", "Mn", "Nd", "Cf")), max_size=12)
)
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


def test_all_that_nobody_sees_keeps_no_word_apart(connection: psycopg.Connection[Any]) -> None:
    """But blanks of any width, and what stands around an annotation: they are between words."""
    planes = (*range(1, 0x3000), *range(0x3001, 0xD800), *range(0xE000, 0xFDD0), *range(0xFE00, 0xFFF9))
    unseen = [c for c in (*planes, *range(0xE0000, 0xE1000)) if not legible_text.says_something(chr(c))]
    joins = [c for c in unseen if unicodedata.category(chr(c)) not in {"Cc", "Zs", "Zl", "Zp"} and c != BRAILLE_BLANK]
    assert len(joins) > 4_096 + 30
    apart = "select chr(c) from unnest(%s::int[]) c where not social_words('a' || chr(c) || 'b') @@ 'ab'::tsquery"
    assert connection.execute(apart, (joins,)).fetchall() == []


@pytest.mark.parametrize("migration", ["0116_social_search_folded.sql", "0337_search_invisible.sql"])
def test_what_was_written_before_the_migration_is_found_by_the_index(stack: World, migration: str) -> None:
    with database_before(stack.addresses.postgres_superuser_dsn, migration) as connection:
        connection.execute("insert into author (user_id) values ('u_1')")
        connection.execute(_NEW_POST, {"id": "po_1", "text": "Ca\u00adf\u00e9 \uff33\uff30\u2060\uff21\uff2d"})
        upgrade(connection, migration)
        connection.execute(_NEW_POST, {"id": "po_2", "text": "another cafe"})
        connection.execute("set enable_seqscan = off; drop index post_of_author, post_pulled, post_public")
        asked = "select post_id from post where state = 'published' and social_words(text) @@ social_words_asked(%s)"
        plan = "\n".join(line for (line,) in connection.execute(f"explain {asked}", ("CAFE",)).fetchall())
        assert "post_words" in plan, plan
        assert "Index Cond" in plan, plan
        assert "Filter" not in plan, plan
        for words, ids in (("CAF\u00c9", ["po_1", "po_2"]), ("spam cafe", ["po_1"]), ("tea", [])):
            assert sorted(row[0] for row in connection.execute(asked, (words,)).fetchall()) == ids


@asynccontextmanager
async def _reading(stack: World) -> AsyncIterator[tuple[Store, Timelines]]:
    """The store of all reads of a process, and its timelines."""
    dsn = stack.addresses.postgres_dsns["millrace_ingress"]
    store, searches, nothing, cursors = Store(dsn), Searches(dsn), SimpleNamespace(), Cursors(b"c" * 32)
    posts: Any = Posts(store, cursors, nothing, nothing)  # type: ignore[arg-type]
    await store.open()
    await searches.open()
    try:
        yield store, Timelines(posts, nothing, searches, nothing, cursors)  # type: ignore[arg-type]
    finally:
        await searches.close()
        await store.close()


_ALL_SAY = """
insert into author (user_id) values ('u_many');
insert into post (post_id, author_id, visibility, text, version, state, root_id, is_pushed, created_at)
select 'po_' || n, 'u_many', case n % 7 when 0 then 'private' else 'public' end,
       'everybody says it' || case n % 36 when 35 then ' 🍕' else '' end, 1, 'published', 'po_' || n,
       true, extract(epoch from now()) * 1000000 - n * n::bigint * 1000000 * 60
from generate_series(1, 1200) n
"""


def test_pages_of_words_that_many_posts_have_are_all_that_the_reader_may_see_in_order(
    stack: World, connection: psycopg.Connection[Any]
) -> None:
    connection.execute(_ALL_SAY)

    async def read(words: str) -> list[str]:
        found, cursor = [], None
        async with _reading(stack) as (_, timelines):
            while True:
                page = await timelines.search("u_reads", words, 100, cursor)
                found += [post["post_id"] for post in page["data"]]
                cursor = page["next_cursor"]
                if cursor is None:
                    return found

    assert asyncio.run(read("it says")) == [f"po_{n}" for n in range(1, 1_201) if n % 7]
    assert asyncio.run(read("it \U0001f355 says")) == [f"po_{n}" for n in range(35, 1_201, 36) if n % 7]


_SYMBOLS = [
    ("\U0001f355 pizzeria", ["po_pizza"]),
    ("pizzeria \U0001f355 \u2764", ["po_pizza"]),
    ("pizzeria \u2764\ufe0f", ["po_pizza", "po_heart"]),
    ("pizzeria \U0001f469\u200d\U0001f373", ["po_heart"]),
    ("pizzeria \U0001f355\U0001f355", []),
    ("pizzeria \U0001f354", []),
    ("pizzeria - & + !", ["po_pizza", "po_heart"]),  # no words
    ("\U0001f355", []),  # alone
]


def test_symbols_beside_words_are_words_that_a_post_must_have(
    stack: World, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("insert into author (user_id) values ('u_1') on conflict do nothing")
    for name, text in (
        ("po_heart", "the \u2764 of a pizzeria is \U0001f469\u200d\U0001f373"),
        ("po_pizza", "Pizzeria! \U0001f355, \u2764\ufe0f"),
    ):
        connection.execute(_NEW_POST, {"id": name, "text": text})

    async def read() -> list[list[str]]:
        async with _reading(stack) as (_, timelines):
            pages = [await timelines.search("u_reads", said, 100, None) for said, _ in _SYMBOLS]
        return [[post["post_id"] for post in page["data"]] for page in pages]

    try:
        assert asyncio.run(read()) == [ids for _, ids in _SYMBOLS]
    finally:
        connection.execute("delete from post where post_id in ('po_heart', 'po_pizza')")


def test_searches_that_wait_keep_no_other_read_waiting_and_no_user_has_many(
    stack: World, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def are_blocked() -> bool:
        asked = "select count(*) from pg_locks where not granted and relation = 'post'::regclass"
        return connection.execute(asked).fetchall() == [(limits.SEARCH_POSTGRES_POOL_MAX,)]

    async def read() -> None:
        async with _reading(stack) as (store, timelines):
            with psycopg.connect(stack.addresses.postgres_superuser_dsn) as locking:
                locking.execute("lock table post in access exclusive mode")
                running = [asyncio.create_task(timelines.search(f"u_{n // 2}", "it", 20, None)) for n in range(8)]
                await asyncio.to_thread(eventually, are_blocked)
                assert await store.rows("author_by_id", {"user_id": "u_absent"}) == []
                with monkeypatch.context() as impatient:
                    impatient.setattr("ingress.limits.STORE_POOL_WAIT_S", 0.05)
                    with pytest.raises(errors.Overloaded):
                        await timelines.search("u_0", "it", 20, None)
            answers = await asyncio.gather(*running, return_exceptions=True)
            assert {type(one) for one in answers} <= {dict, errors.DependencyTimeout}
            many = await asyncio.gather(*(timelines.search("u_0", "it", 20, None) for _ in range(6)))
            assert [one["data"] is not None for one in many] == [True] * 6, "further ones wait for the first"

    asyncio.run(read())
