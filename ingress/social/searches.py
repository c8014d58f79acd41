"""Search: on connections of its own, few at once for each user, so that costly words keep no other read waiting.

Of words that many posts have, the newest are read in windows of time, each some times as long as the one before: what a
page reads is bounded by what a page has, not by what there ever was.
"""

from __future__ import annotations

import time
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from ingress.http.store import Store
from ingress.http.turns import Turns
from schemas.social import limits
from sinks.postgres.arrays import Texts

if TYPE_CHECKING:
    from ingress.social.pager import Place

Rows = list[tuple[Any, ...]]
_S_US: Final = 1_000_000
#: of its sessions: no post is read, and its words made out, before indexes say that it has both the words and the time
PLANNED: Final = "-c enable_indexscan=off"
_SETTINGS: Final = f"{PLANNED} -c statement_timeout={limits.SEARCH_STATEMENT_TIMEOUT_MS}"


class Searches(Turns):
    """Those of one process, each in a turn of its user. ``open`` before use, ``close`` after."""

    def __init__(self, dsn: str) -> None:
        super().__init__("Too many searches of this user are under way.", of_each=limits.SEARCHES_OF_USER_MAX)
        self._store = Store(dsn, pool_min=0, pool_max=limits.SEARCH_POSTGRES_POOL_MAX, settings=_SETTINGS)

    async def open(self) -> None:
        """Connects when somebody searches."""
        await self._store.open()

    async def close(self) -> None:
        """Disconnects."""
        await self._store.close()

    async def are_common(self, words: str) -> bool:
        """Whether many posts have all of them. Raises as ``Store.rows`` does."""
        most = limits.SEARCH_MATCHES_FEW + 1
        ((found,),) = await self._store.rows("search_matches", {"words": words, "most": most})
        return bool(found == most)

    async def below(self, viewer: str, words: str, place: Place, count: int, *, are_common: bool) -> Rows:
        """The next so many behind a place that the viewer may see; fewer: there are no more. Raises as ``rows``."""
        found: Rows = []
        asked = Texts(symbols(words))
        for since in [*windows(place[0], int(time.time() * _S_US)), None] if are_common else [None]:
            given = {"viewer": viewer, "words": words, "symbols": asked, "at": place[0], "id": place[1], "since": since}
            found += await self._store.rows("timeline_search", given | {"count": count - len(found)})
            if len(found) == count or since is None:
                break
            place = (since, "")  # all that is not older was read
        return found


def windows(newest_us: int, now_us: int) -> list[int]:
    """Since when posts are read that are not newer than this, window after window."""
    return [min(newest_us, now_us) - span_s * _S_US for span_s in limits.SEARCH_WINDOWS_S]


def symbols(words: str) -> list[str]:
    """Those of the words that have no letter or digit, but a symbol, as emoji. Punctuation alone is no word."""
    return [word for word in words.split() if any(map(_is_symbol, word)) and not any(map(str.isalnum, word))]


def _is_symbol(c: str) -> bool:
    return not c.isascii() and unicodedata.category(c).startswith("S")
