"""The page of a case at the moderation desk reads no text that it does not show: who reads one is noted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ingress.social.desk import Desk
from schemas import errors

Json = dict[str, Any]
_ROWS: dict[str, list[Json]] = {
    "desk_versions": [{"version": 3}, {"version": 2}],
    "desk_texts": [{"version": 3, "text": "for friends"}, {"version": 2, "text": "before"}],
}


class _Store:
    """What is asked, and some rows of it."""

    def __init__(self, rows: dict[str, list[Json]]) -> None:
        self._rows = rows
        self.asked: list[str] = []

    async def records(self, query: str, parameters: Json) -> list[Json]:
        del parameters
        self.asked.append(query)
        return self._rows.get(query, [])


class _HiddenPosts:
    """Of a post that the moderator's own user may not see."""

    async def get(self, *_: object, **__: object) -> Json:
        raise errors.NotFound


def _desk(rows: dict[str, list[Json]]) -> tuple[Desk, _Store]:
    store = _Store(rows)
    return Desk(store, _HiddenPosts()), store  # type: ignore[arg-type]


def test_a_case_names_the_versions_that_one_has_to_judge_and_reads_none_of_their_texts() -> None:
    desk, store = _desk(_ROWS)
    case = asyncio.run(desk.case("u_judge", "po_1"))
    assert (case["unread"], case["post"], case["versions"]) == ([3, 2], None, [])
    assert "desk_texts" not in store.asked
    assert asyncio.run(desk.texts("u_judge", "po_1")) == _ROWS["desk_texts"]


def test_who_judges_nothing_is_told_of_no_version_and_no_text() -> None:
    desk, _ = _desk({})
    assert asyncio.run(desk.case("u_other", "po_1"))["unread"] == []
    with pytest.raises(errors.NotFound):
        asyncio.run(desk.texts("u_other", "po_1"))
