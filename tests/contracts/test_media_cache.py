"""Varnish with our rules before a media origin: what it keeps, for whom, how long, and how it forgets (trap 4)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest

from dataflows.social.media.caches import MediaCaches
from schemas.social import limits
from schemas.social.media_origin import MediaOrigin, cache_keys
from tests.eventually import becomes, eventually
from tests.worlds.media_cache import NOT_THERE, PRIVATE, PUBLIC, Edge, cached_origin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with cached_origin(tmp_path_factory.mktemp("media")) as made:
        yield made


@pytest.fixture
def edge(running: Edge) -> Edge:
    running.origin.status, running.origin.headers = 200, PUBLIC
    running.origin.asked.clear()
    return running


def test_many_who_ask_at_once_are_one_fetch_and_each_version_is_an_object(edge: Edge) -> None:
    edge.origin.open.clear()
    with ThreadPoolExecutor(50) as pool:
        answers = [pool.submit(edge.get, "/media/md_viral/1/full") for _ in range(50)]
        eventually(lambda: edge.origin.asked.total() == 1, what="one of them is fetched")
        edge.origin.open.set()
        assert {answer.result().status_code for answer in answers} == {200}
    assert edge.get("/media/md_viral/2/full").text == "/media/md_viral/2/full"
    assert edge.origin.asked == {"/media/md_viral/1/full": 1, "/media/md_viral/2/full": 1}
    kept = edge.get("/media/md_viral/1/full").headers
    assert "xkey" not in kept
    assert int(kept["age"]) <= limits.MEDIA_PUBLIC_AGE_S  # a browser keeps no longer what lay here


def test_what_is_signed_or_private_is_kept_for_nobody(edge: Edge) -> None:
    edge.origin.headers = PRIVATE
    for path in ("/media/md_own/1/full?expires=1&signature=a", "/media/md_own/1/full"):
        for _ in range(3):
            assert edge.get(path).headers["cache-control"] == PRIVATE["Cache-Control"]
        assert edge.origin.asked[path] == 3
    assert edge.http.put("/uploads/md_own/1?signature=a", content=b"part" * 99).content == b"part" * 99
    for n, (headers, query) in enumerate(((PUBLIC, "?expires=1&signature=a"), ({}, ""))):
        edge.origin.headers, path = headers, f"/media/md_own/3{n}/full{query}"
        assert [edge.get(path).status_code for _ in range(2)] == [200, 200]
        assert edge.origin.asked[path] == 2
    edge.origin.status = 503
    assert [edge.get("/media/md_own/2/full").status_code for _ in range(2)] == [503, 503]
    assert edge.origin.asked["/media/md_own/2/full"] == 2


def test_who_has_a_copy_is_told_so_as_long_as_it_may_see_it(edge: Edge) -> None:
    """By the cache itself, of what it keeps, in pieces too; of what is signed by the origin, every time."""
    tagged, path = {"ETag": '"full-1"'}, "/media/md_had/1/full"
    public, signed = PUBLIC | tagged, f"{path}?expires=1&signature=a"
    has_it = {"If-None-Match": tagged["ETag"]}

    def told(path: str, **headers: str) -> tuple[int, bytes]:
        answer = edge.http.get(path, headers=headers)
        return answer.status_code, answer.content

    edge.origin.headers = public
    assert told(path) == (200, path.encode())
    assert told(path, **has_it) == (304, b"")
    assert told(path, Range="bytes=1-5", **{"If-Range": tagged["ETag"]}) == (206, b"media")
    assert told(path, Range="bytes=1-5", **{"If-Range": '"other"'}) == (200, path.encode())
    edge.origin.headers = PRIVATE | tagged
    for n in (1, 2):
        assert told(signed, **has_it) == (304, b"")
        assert edge.origin.asked == {path: 1, signed: n}
    edge.origin.status, edge.origin.headers = 404, NOT_THERE
    edge.caches.purge("md_had")
    gone = [edge.http.get(one, headers=has_it) for one in (path, path, signed)]
    assert [answer.status_code for answer in gone] == [404] * 3
    assert not any(b"full-1" in value for answer in gone for _, value in answer.headers.raw)


def test_what_is_not_there_is_remembered_shortly(edge: Edge) -> None:
    edge.origin.status, edge.origin.headers = 404, NOT_THERE
    assert [edge.get("/media/md_none/1/full").status_code for _ in range(3)] == [404] * 3
    assert edge.origin.asked["/media/md_none/1/full"] == 1
    edge.origin.status, edge.origin.headers = 200, PUBLIC
    becomes(lambda: edge.get("/media/md_none/1/full").status_code, 200, 20, what="it is asked for again")
    assert {edge.get("/media/md_none/1/full").status_code for _ in range(3)} == {200}
    assert edge.origin.asked["/media/md_none/1/full"] == 2  # and kept


def test_only_we_purge_and_only_what_we_name(edge: Edge) -> None:
    paths = [f"/media/{name}/1/full" for name in ("md_a", "md_ab")]
    for path in paths:
        edge.get(path)
    refused = edge.http.request("PURGE", "/", headers={"x-purge-key": "guessed", "xkey-purge": cache_keys("md_a")})
    assert refused.status_code == 404
    edge.get(paths[0])
    assert edge.origin.asked[paths[0]] == 1
    edge.origin.status, edge.origin.headers = 404, NOT_THERE
    assert edge.caches.purge("md_a") == 1  # it says how many copies it had
    # a copy that ended is counted until a thread of Varnish's own has taken it out of its index
    eventually(lambda: edge.caches.purge("md_a") == 0, what="it is in no index any more")
    assert [edge.get(path).status_code for path in paths] == [404, 200]


def test_a_fetch_that_a_purge_overtook_is_met_by_the_next_one(edge: Edge) -> None:
    """Trap 4: the origin has answered, the purge finds nothing, the answer is stored. Until then nobody says that it is done."""
    path = "/media/md_late/1/full"
    edge.origin.open.clear()
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(edge.get, path)
        eventually(lambda: edge.origin.asked[path] == 1, what="it is under way")
        edge.origin.status, edge.origin.headers = 404, NOT_THERE  # taken down
        edge.caches.purge("md_late")
        edge.origin.open.set()
        assert late.result().status_code == 200
    assert edge.get(path).status_code == 200  # from the cache: this is what the first purge leaves
    assert edge.caches.may_fill(0.0)
    assert edge.caches.may_fill(float(limits.MEDIA_CACHE_FETCH_S))
    assert not edge.caches.may_fill(60.0)
    edge.caches.purge("md_late")
    assert edge.get(path).status_code == 404


def test_a_cache_that_stood_still_keeps_nothing_of_what_it_was_fetching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The origin has answered, the cache stands still for longer than a fetch may last: what was hidden meanwhile is not
    stored when it goes on, which no purge would meet."""
    monkeypatch.setattr(limits, "MEDIA_CACHE_FETCH_S", 1)
    path = "/media/md_still/1/full"
    with cached_origin(tmp_path) as edge, ThreadPoolExecutor(1) as pool:
        edge.origin.open.clear()
        late = pool.submit(edge.get, path)
        eventually(lambda: edge.origin.asked[path] == 1, what="it is under way")
        with edge.frozen():
            began = time.monotonic()
            edge.origin.open.set()
            eventually(lambda: edge.origin.answered[path] == 1, what="its answer waits for the cache")
            edge.origin.status, edge.origin.headers = 404, NOT_THERE  # taken down
            eventually(lambda: time.monotonic() - began > limits.MEDIA_CACHE_FETCH_S + 1)
        assert late.result().status_code == 503
        assert edge.get(path).status_code == 404


def test_a_cache_that_is_away_or_refuses_is_no_proof(edge: Edge, tmp_path: Path) -> None:
    for url, error in (("http://127.0.0.1:1", httpx.ConnectError), (edge.url, httpx.HTTPStatusError)):
        place = MediaOrigin(url="", uploads_url="", key=b"other" * 8, folder=tmp_path, caches=(url,))
        with pytest.raises(error):
            MediaCaches(edge.http, place).purge("md_a")
    assert not MediaCaches(edge.http, MediaOrigin(url="", uploads_url="", key=b"k" * 32, folder=tmp_path)).may_fill(0.0)
