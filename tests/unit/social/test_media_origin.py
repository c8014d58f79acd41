"""The origin takes parts as they come, however slowly, and of everybody: over its application, with a table in memory."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from ingress import limits as ingress_limits
from ingress.social.media.origin import Origin
from ingress.social.media.origin_app import create_app
from ingress.social.media.uploads import Uploads
from schemas.limits import MEDIA_VIEW_TTL_S
from schemas.social import limits
from schemas.social.media_origin import MediaOrigin, Part
from sinks.objects.media_objects import MediaObjects, rendition_key

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Message, Receive

NOW = 4_000_000_000  # by the database; no machine that runs this is there yet
DATA = b"part"
MANIFEST = '{"version": 1, "renditions": [{"name": "full.webp", "mime": "image/webp", "bytes": 4}]}'


class Parts:
    """What the origin would find in Postgres: each owner has one upload of one part, and a medium of its own."""

    view = (3, True, False)  # of a medium: access version, whether it is served, and to everybody

    async def rows(self, name: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
        if name == "media_part_received":
            return [(given["number"],)]
        part = part_of(given["media_id"])
        if name == "media_view":
            return [(*self.view, MANIFEST, part.owner_id, "", float(NOW))]
        return [(part.owner_id, part.mime, "initiated", part.size, part.sha256, float(NOW))]


def part_of(media_id: str) -> Part:
    sha256 = hashlib.sha256(DATA).hexdigest()
    return Part(media_id=media_id, owner_id=f"u_{media_id}", number=1, size=len(DATA), sha256=sha256, mime="image/png")


def kept(folder: Path) -> None:
    """The rendition that the manifest says."""
    rendition = folder / rendition_key("md_1", "full.webp")
    rendition.parent.mkdir(parents=True)
    rendition.write_bytes(DATA)


class Asked:
    """The application, and what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.place = MediaOrigin(url="http://media", uploads_url="http://media", key=b"k" * 32, folder=folder)
        origin = Origin("", self.place)
        self.parts = Parts()
        origin._store = self.parts  # type: ignore[assignment]
        self._app = create_app(origin)
        self.go_on = asyncio.Event()
        self.waiting = asyncio.Semaphore(0)

    async def put(self, media_id: str, slowly: bool = False, expires: int = NOW + 1) -> int:
        """The status of a part that is put; one that is sent slowly waits in its midst."""
        left = [DATA[:2], DATA[2:]]

        async def receive() -> Message:
            if slowly and len(left) == 1:
                self.waiting.release()
                await self.go_on.wait()
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

        return await self._asked("PUT", self.place.part_url(part_of(media_id), expires, "0" * 16), receive)

    async def get(self, url: str) -> int:
        """The status of what is at this address."""
        return (await self.seen(url))[0]

    async def seen(self, url: str, method: str = "GET", **fields: str) -> tuple[int, dict[str, str], bytes]:
        """What is at this address: status, header fields, and body."""

        async def receive() -> Message:
            await asyncio.Event().wait()  # it stays, and says nothing
            raise AssertionError

        asked = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
        first, *rest = await self._sent(method, url, receive, asked)
        headers = {name.decode(): value.decode() for name, value in first["headers"]}
        return first["status"], headers, b"".join(one["body"] for one in rest)

    async def _asked(self, method: str, text: str, receive: Receive) -> int:
        headers = [(b"content-length", str(len(DATA)).encode())] if method == "PUT" else []
        return int((await self._sent(method, text, receive, headers))[0]["status"])

    async def _sent(
        self, method: str, text: str, receive: Receive, headers: list[tuple[bytes, bytes]]
    ) -> list[Message]:
        url = urlsplit(text)
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": method, "path": url.path, "query_string": url.query.encode()}
        await self._app(scope | {"headers": headers, "http_version": "1.1"}, receive, send)
        return sent


@pytest.mark.parametrize("pace_bytes_s", [1, 1 << 40])
def test_a_part_may_take_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pace_bytes_s: int) -> None:
    monkeypatch.setattr(ingress_limits, "BODY_READ_S", 0.0)
    monkeypatch.setattr(limits, "MEDIA_PACE_BYTES_S", pace_bytes_s)

    async def uploaded() -> int:
        asked = Asked(tmp_path)
        putting = asyncio.create_task(asked.put("md_slow", slowly=True))
        await asyncio.wait_for(asked.waiting.acquire(), 20)
        for _ in range(3):
            await asyncio.sleep(0)  # a loop that has nothing to wait for would find every deadline kept
        asked.go_on.set()
        return await putting

    assert asyncio.run(uploaded()) == (204 if pace_bytes_s == 1 else 408)


def test_one_owner_leaves_places_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEDIA_UPLOADS_MAX", 4)

    async def flooded() -> None:
        asked = Asked(tmp_path)
        async with asyncio.TaskGroup() as hanging:
            held = [hanging.create_task(asked.put("md_greedy", slowly=True)) for _ in range(2)]
            for _ in held:
                await asyncio.wait_for(asked.waiting.acquire(), 20)
            assert await asked.put("md_greedy") == 503
            assert await asked.put("md_other") == 204
            asked.go_on.set()
        assert [task.result() for task in held] == [204, 204]
        assert await asked.put("md_greedy") == 204

    asyncio.run(flooded())


def test_urls_are_good_as_long_as_the_database_says(tmp_path: Path) -> None:
    """Who signs them, who proves that they are dead, and the origin need not have one clock."""

    async def seen() -> None:
        asked = Asked(tmp_path)
        assert [await asked.put("md_1", expires=until) for until in (NOW, NOW + 1)] == [403, 204]
        kept(tmp_path)
        row = {"media_id": "md_1", "access_version": 3, "is_served": True, "is_public": False, "manifest": MANIFEST}
        (made,) = Uploads(None, asked.place).renditions(row | {"now_s": NOW})  # type: ignore[arg-type] # reads nothing
        assert await asked.get(made["url"]) == 200
        for until in (NOW, NOW + MEDIA_VIEW_TTL_S + 60):
            assert await asked.get(asked.place.view_url("md_1", 3, "full.webp", until)) == 404

    asyncio.run(seen())


@pytest.mark.parametrize("is_file", [True, False])
def test_a_rendition_is_sent_piece_by_piece_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_file: bool
) -> None:
    """Players of films ask for bytes 0 and 1 first, and play nothing where they get all of it."""
    if not is_file:  # as in a bucket
        monkeypatch.setattr(MediaObjects, "rendition_file", lambda *_: None)
    kept(tmp_path)

    async def asked() -> None:
        origin = Asked(tmp_path)
        url = origin.place.view_url("md_1", 3, "full.webp", NOW + 9)
        status, whole, body = await origin.seen(url)
        assert (status, body, whole["accept-ranges"], whole["content-length"]) == (200, DATA, "bytes", "4")
        status, head, body = await origin.seen(url, "HEAD", range="bytes=0-1")
        assert (status, body, head["content-length"], head["etag"]) == (200, b"", "4", whole["etag"])
        for said, told in {"bytes=0-1": "0-1", "bytes=2-": "2-3", "bytes=-1": "3-3", "BYTES=1-99": "1-3"}.items():
            status, part, body = await origin.seen(url, range=said)
            first, last = map(int, told.split("-"))
            assert (status, part["content-range"], body) == (206, f"bytes {told}/4", DATA[first : last + 1])
            assert part["content-length"] == str(len(body))
            assert {part[one] == whole[one] for one in ("etag", "cache-control", "x-content-type-options")} == {True}
        for said in ("bytes=4-", "bytes=-0", "bytes=9-10"):
            status, none, body = await origin.seen(url, range=said)
            assert (status, none["content-range"], json.loads(body)["code"]) == (
                416,
                "bytes */4",
                "range_not_satisfiable",
            )
        for said in ("bytes=", "bytes=-", "bytes=2-1", "bytes=0-0,2-2", "lines=0-1", "bytes=\u0662-", "x"):
            assert (await origin.seen(url, range=said))[::2] == (200, DATA), said
        for etag, status in ((whole["etag"], 206), ('"other"', 200), ("W/" + whole["etag"], 200)):
            assert (await origin.seen(url, range="bytes=0-1", if_range=etag))[0] == status

    asyncio.run(asked())


@pytest.mark.parametrize("is_public", [False, True])
def test_who_has_a_rendition_is_not_sent_it_again_and_learns_nothing_when_it_may_not_see_it(
    tmp_path: Path, is_public: bool
) -> None:
    kept(tmp_path)

    async def asked() -> None:
        origin = Asked(tmp_path)
        origin.parts.view = (3, True, is_public)
        url = origin.place.view_url("md_1", 3, "full.webp", None if is_public else NOW + 60)
        _, whole, _ = await origin.seen(url)
        etag = whole["etag"]
        assert whole["cache-control"] == f"{'public' if is_public else 'private'}, max-age=10, immutable"
        for said in (etag, f"W/{etag}", f'"other", {etag}', "*"):
            for method in ("GET", "HEAD"):
                status, head, body = await origin.seen(url, method, if_none_match=said, range="bytes=0-1")
                assert (status, body) == (304, b""), said
                assert {name: whole[name] for name in ("etag", "cache-control", "xkey")}.items() <= head.items()
                assert "content-length" not in head
        for said in ('"other"', etag.strip('"'), "", f"x{etag[:-1]}"):
            assert (await origin.seen(url, if_none_match=said))[::2] == (200, DATA), said
        unknown = await origin.seen(origin.place.view_url("md_1", 3, "none.webp", NOW + 60), if_none_match=etag)
        assert unknown[0] == 404
        wrong = origin.place.view_url("md_1", 3, "full.webp", NOW)
        plain = url.partition("?")[0]
        for view, tried in (
            ((4, True, True), url),
            ((3, False, True), url),
            ((3, True, False), plain),
            ((3, True, True), wrong),
        ):
            origin.parts.view = view
            for said in (etag, "*"):
                assert await origin.seen(tried, if_none_match=said) == unknown

    asyncio.run(asked())
