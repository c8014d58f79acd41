"""How old what is told without Postgres may be, and of whom too much is unknown to tell it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ingress.social.public_snapshot import PublicSnapshot
from schemas import errors
from schemas.social import limits


class Postgres:
    """Posts and blocks, as far as a snapshot asks for them; it may be away."""

    def __init__(self) -> None:
        self.now = 0.0
        self.is_away = False
        self.readings = 0
        self.has_read = asyncio.Event()
        self.blocks: list[tuple[str, str]] = []

    def clock(self) -> float:
        return self.now

    async def public(self, viewer: str, limit: int, cursor: str | None) -> dict[str, Any]:
        assert (viewer, limit, cursor) == ("", limits.PUBLIC_SNAPSHOT_POSTS, None)
        self.readings += 1
        self.has_read.set()
        if self.is_away:
            raise errors.Unavailable
        quote = {"post_id": "po_2", "author_id": "u_b", "text": "quoted"}
        posts: list[dict[str, Any]] = [{"post_id": "po_1", "author_id": "u_a", "quote": quote}]
        return {"data": [*posts, {"post_id": "po_2", "author_id": "u_b", "quote": None}]}

    async def rows(self, query: str, given: dict[str, Any]) -> list[tuple[str, str]]:
        assert (query, given["users"]) == ("public_blocks", ["u_a", "u_b"])
        return self.blocks


async def read_again(postgres: Postgres) -> None:
    """Until what was read before, and after now, is told."""
    for _ in range(2):
        postgres.has_read.clear()
        await asyncio.wait_for(postgres.has_read.wait(), 30)


def with_snapshot(monkeypatch: pytest.MonkeyPatch, postgres: Postgres, test: Any) -> None:
    monkeypatch.setattr(limits, "PUBLIC_SNAPSHOT_EVERY_S", 0)

    async def run() -> None:
        snapshot = PublicSnapshot(postgres, postgres, postgres.clock)  # type: ignore[arg-type] # as far as it asks
        snapshot.start()
        try:
            await test(snapshot)
        finally:
            await snapshot.close()

    asyncio.run(run())


def ids(page: dict[str, Any] | None) -> list[str] | None:
    return None if page is None else [post["post_id"] for post in page["data"]]


def test_it_is_told_until_it_is_too_old_and_read_only_while_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    postgres = Postgres()

    async def test(snapshot: PublicSnapshot) -> None:
        assert snapshot.page("u_1", 9) is None
        await asyncio.sleep(0)
        assert postgres.readings == 0, "nobody asked"
        snapshot.asked()
        await read_again(postgres)
        assert ids(snapshot.page("u_1", 9)) == ["po_1", "po_2"]
        assert ids(snapshot.page("u_1", 1)) == ["po_1"]
        postgres.is_away = True
        await read_again(postgres)
        postgres.now = limits.PUBLIC_SNAPSHOT_AGE_MAX_S
        assert ids(snapshot.page("u_1", 9)) == ["po_1", "po_2"]
        postgres.now += 0.1
        assert snapshot.page("u_1", 9) is None
        postgres.now = limits.PUBLIC_SNAPSHOT_ASKED_S + 1
        before = postgres.readings
        for _ in range(10):
            await asyncio.sleep(0)
        assert postgres.readings <= before + 1

    with_snapshot(monkeypatch, postgres, test)


def test_who_is_blocked_is_told_nothing_of_it_and_of_too_many_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    postgres = Postgres()
    monkeypatch.setattr(limits, "PUBLIC_SNAPSHOT_BLOCKS_MAX", 2)

    async def test(snapshot: PublicSnapshot) -> None:
        snapshot.asked()
        await read_again(postgres)
        postgres.blocks = [("u_b", "u_1")]
        await read_again(postgres)
        page = snapshot.page("u_1", 9)
        assert page is not None
        assert ids(page) == ["po_1"]
        assert page["data"][0]["quote"] == {"post_id": "po_2", "unavailable": True}
        assert ids(snapshot.page("u_2", 9)) == ["po_1", "po_2"]
        postgres.blocks = [("u_b", "u_1"), ("u_b", "u_9")]
        await read_again(postgres)
        page = snapshot.page("u_2", 9)
        assert page is not None
        assert ids(page) == ["po_1"]
        assert page["data"][0]["quote"] == {"post_id": "po_2", "unavailable": True}

    with_snapshot(monkeypatch, postgres, test)
