"""What a stream tells of a home: all that comes, once, and nothing that was there before."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ingress import limits as ingress_limits
from ingress.identity.caller import Caller
from ingress.social.home_streams import HomeStreams
from ingress.social.told import place_of_page
from schemas import errors
from schemas.renderer import timestamp
from schemas.social import limits

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = ingress_limits.PAGE_LIMIT_DEFAULT


def caller(name: str) -> Caller:
    return Caller(principal=f"user:{name}", subject=name, scopes=frozenset(), expires_at=time.time() + 60)


def at(n: int) -> str:
    """A time in the past, a microsecond for each number."""
    return timestamp(1_700_000_000_000_000 + n)


class Home:
    """A home in pages, the newest first; a number is a post and its time."""

    def __init__(self, *posts: int) -> None:
        self.posts = set(posts)
        self.reads = 0
        self.after_read: Callable[[], object] = lambda: None

    async def home(self, user: str, limit: int, cursor: int | None) -> dict[str, Any]:
        self.reads += 1
        below = [n for n in sorted(self.posts, reverse=True) if cursor is None or n < cursor]
        data = [{"post_id": f"po_{n:03}", "created_at": at(n)} for n in below[:limit]]
        self.after_read()
        return {"data": data, "next_cursor": below[limit - 1] if len(below) > limit else None}


def frames_of(
    monkeypatch: pytest.MonkeyPatch, home: Home, *changes: Callable[[], object], after: str | None = None
) -> list[list[tuple[str, str]]]:
    """What a stream says when it opens, at the first look, and after each change: names and values of its fields."""
    for name in ("HOME_STREAM_INTERVAL_S", "HOME_STREAM_UNASKED_S"):
        monkeypatch.setattr(limits, name, 0.001)
    arrivals = SimpleNamespace(listening=lambda *_: nullcontext())
    streams = HomeStreams(home, arrivals)  # type: ignore[arg-type] # as far as it asks

    async def listen() -> list[bytes]:
        frames = streams.stream(caller("u_1"), after)
        heard = [await anext(frames), await anext(frames)]
        for change in changes:
            change()
            heard.append(await anext(frames))
        await frames.aclose()  # type: ignore[attr-defined] # a generator
        return heard

    said = [frame.decode().splitlines() for frame in asyncio.run(listen())]
    return [[(name, value) for name, _, value in (line.partition(": ") for line in lines)] for lines in said]


def posts_of(frame: list[tuple[str, str]]) -> list[int]:
    return [int(json.loads(value)["post_id"].removeprefix("po_")) for name, value in frame if name == "data"]


def ids_of(frame: list[tuple[str, str]]) -> list[str]:
    return [value for name, value in frame if name == "id"]


def told(
    monkeypatch: pytest.MonkeyPatch, home: Home, *changes: Callable[[], object], after: str | None = None
) -> list[list[int]]:
    """What is told at the first look, and after each change."""
    opening, *frames = frames_of(monkeypatch, home, *changes, after=after)
    assert opening[0] == ("retry", "1000")
    return [posts_of(frame) for frame in frames]


def test_more_posts_than_a_page_come_between_two_looks_and_each_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    home, many = Home(*range(30)), range(100, 100 + 3 * PAGE)
    found = told(monkeypatch, home, lambda: home.posts.update(many), lambda: home.posts.add(500))
    assert found == [[], list(many), [500]]


def test_what_stood_below_the_newest_page_is_no_news_when_what_stood_above_it_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = Home(*range(100))
    newest = range(100 - PAGE, 100)
    found = told(monkeypatch, home, lambda: home.posts.difference_update(newest), lambda: home.posts.add(500))
    assert found == [[], [], [500]]


def test_what_is_hidden_before_a_look_has_ended_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at more than a page reads more than once: what it tells is what the last of these reads allowed."""
    home, many = Home(*range(30)), range(100, 100 + 2 * PAGE)
    newest = max(many)

    def come() -> None:
        home.posts.update(many)
        home.after_read = lambda: home.posts.discard(newest)

    assert told(monkeypatch, home, come) == [[], list(many[:-1])]


def test_a_stream_goes_on_behind_a_post_some_pages_down_and_a_look_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(*range(999))
    assert told(monkeypatch, home, after="po_950") == [list(range(951, 999))]
    home.reads = 0
    assert told(monkeypatch, home, after="po_none") == [list(range(999 - PAGE, 999))], (
        "the newest page, where it is gone"
    )
    assert home.reads <= 4
    assert told(monkeypatch, Home(1, 2), after="") == [[1, 2]]


def test_a_stream_that_was_cut_off_tells_what_came_home_late_below_its_last_post(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = Home(*range(100))
    *_, last = frames_of(monkeypatch, home, lambda: home.posts.update((200, 300)))
    home.posts.update((150, 250, 400))
    assert told(monkeypatch, home, after=ids_of(last)[-1]) == [[150, 250, 400]]
    assert told(monkeypatch, home, after=ids_of(last)[0]) == [[150, 250, 300, 400]], "what followed may have been lost"


def test_a_late_post_is_told_also_when_newer_ones_that_came_with_it_fill_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, known, new = Home(*range(100)), range(200, 200 + 2 * PAGE, 2), range(500, 500 + PAGE // 2)
    found = told(monkeypatch, home, lambda: home.posts.update(known), lambda: home.posts.update((201, *new)))
    assert found == [[], list(known), [201, *new]]


def test_a_stream_goes_on_when_the_post_that_it_told_last_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(*range(100))
    *_, last = frames_of(monkeypatch, home, lambda: home.posts.add(200))
    home.posts.remove(200)
    assert told(monkeypatch, home, after=ids_of(last)[-1]) == [[]]
    new = range(300, 300 + 3 * PAGE)
    home.posts.update(new)
    assert told(monkeypatch, home, after=ids_of(last)[-1]) == [list(new)]


def test_a_stream_that_was_cut_off_anywhere_tells_each_post_once(monkeypatch: pytest.MonkeyPatch) -> None:
    home, new = Home(*range(30)), list(range(100, 100 + 5 * PAGE))
    *_, burst = frames_of(monkeypatch, home, lambda: home.posts.update(new))
    for n, after in enumerate(ids_of(burst), 1):
        opening, first, *_ = frames_of(monkeypatch, home, after=after)
        assert posts_of(first) == new[n:]
        assert ids_of(opening) == [after], "who hears nothing goes on from the same place"
        assert len(after) < 1_200, "browsers send it in a header"


def last_id(monkeypatch: pytest.MonkeyPatch, home: Home, *changes: Callable[[], object], after: str | None) -> str:
    """With which a stream is gone on from that told this, after another one."""
    frames = frames_of(monkeypatch, home, *changes, after=after)
    return [said for frame in frames for said in ids_of(frame)][-1]


@pytest.mark.parametrize("older", [range(5), range(100)], ids=["a short home", "a long home"])
def test_what_is_hidden_all_through_streams_is_not_told_again_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch, older: range
) -> None:
    """Its place is known from the ids alone, and stands above the end of a page that grows meanwhile."""
    home = Home(*older)
    said = last_id(monkeypatch, home, lambda: home.posts.update((200, 201)), after=None)
    home.posts.discard(200)
    for n in range(300, 304):  # streams that each tell one post
        said = last_id(monkeypatch, home, lambda n=n: home.posts.add(n), after=said)
    home.posts.update((200, 202))
    assert told(monkeypatch, home, after=said) == [[202]], "what came late beside it is news"


def test_what_is_hidden_for_long_leaves_the_ids_when_it_is_no_news_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(*range(PAGE))
    said = last_id(monkeypatch, home, lambda: home.posts.update(range(200, 260)), after=None)
    home.posts.difference_update(range(200, 260))
    said = last_id(monkeypatch, home, lambda: home.posts.update(range(300, 310)), after=said)
    assert len(said) < 1_200, "more than there is room for"
    home.posts.update(range(200, 260))
    assert told(monkeypatch, home, after=said) == [[]]
    home.posts.difference_update(range(200, 260))
    for n in range(2):
        new = range(400 + n * PAGE, 400 + (n + 1) * PAGE)
        said = last_id(monkeypatch, home, lambda new=new: home.posts.update(new), after=said)
    said = last_id(monkeypatch, home, after=last_id(monkeypatch, home, lambda: home.posts.add(500), after=said))
    assert len(said) < 600, "a page, and what came since"


def test_an_id_of_an_earlier_release_tells_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its marks are longer names, without times."""
    home = Home(201)
    mark = base64.urlsafe_b64encode(hashlib.sha256(b"po_200").digest()[:6]).decode()
    said = f"po_200~{at(100)}~po_100~{mark}"
    said = last_id(monkeypatch, home, lambda: home.posts.add(300), after=said)
    home.posts.add(200)
    assert told(monkeypatch, home, after=said) == [[]]


def test_a_stream_that_told_nothing_and_a_page_can_be_gone_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    for home in (Home(), Home(1, 2), Home(*range(100))):
        opening, *_ = frames_of(monkeypatch, home)
        page = asyncio.run(home.home("u_1", PAGE, None))["data"]
        home.posts.update((200, 300))
        assert told(monkeypatch, home, after=ids_of(opening)[0]) == [[200, 300]]
        assert told(monkeypatch, home, after=place_of_page(page)) == [[200, 300]]


@pytest.mark.parametrize(
    "said", ["po_1~1~po_1~\n\nevent: post\ndata: {}", "po_1~1~po_1~" + "x" * 8 * 65, "~1~po_1~~" + "x" * 8, "~1~po_1~x"]
)
def test_what_is_not_the_id_of_an_event_is_not_said_again(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """It would be a line of the stream, of whoever made the address; the newest page is told, as of a post that is gone."""
    opened, newest = frames_of(monkeypatch, Home(1, 2), after=said)
    assert [name for name, _ in opened] == ["retry", "id", ""]
    assert said not in dict(opened)["id"]
    assert posts_of(newest) == [1, 2]


def test_one_user_leaves_room_for_the_streams_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingress_limits, "EVENT_STREAMS_OF_CALLER_MAX", 2)
    monkeypatch.setattr(ingress_limits, "EVENT_STREAMS_MAX", 3)
    streams = HomeStreams(None, None)  # type: ignore[arg-type] # nothing is read here
    one, two, three = map(caller, ("u_1", "u_2", "u_3"))
    streams.admit(one)
    streams.admit(one)
    with pytest.raises(errors.Overloaded, match="of this caller"):
        streams.admit(one)
    streams.admit(two)
    with pytest.raises(errors.Overloaded):
        streams.admit(three)
    streams.leave(one)
    streams.admit(three)


def test_a_stream_ends_before_it_fills_memory_and_is_gone_on_with_without_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a client that reads nothing, all that was told lies in memory."""
    monkeypatch.setattr(limits, "HOME_STREAM_BYTES_MAX", 2_000)
    monkeypatch.setattr(limits, "HOME_STREAM_INTERVAL_S", 0.001)
    monkeypatch.setattr(limits, "HOME_STREAM_UNASKED_S", 0.001)
    home = Home(1)
    streams = HomeStreams(home, SimpleNamespace(listening=lambda *_: nullcontext()))  # type: ignore[arg-type]

    async def heard(after: str | None) -> list[bytes]:
        return [frame async for frame in streams.stream(caller("u_1"), after)]

    last = place_of_page([{"post_id": "po_001", "created_at": at(1)}])
    home.posts.update(range(100, 180))
    found: list[int] = []
    while len(found) < 80:
        frames = asyncio.run(asyncio.wait_for(heard(last), 60))
        events = b"".join(frames[1:]).split(b"\n\n")[:-1]
        assert sum(len(event) + 2 for event in events[:-1]) < 2_000, "the last one is what fills it"
        lines = b"".join(frames).decode().splitlines()
        found += [
            int(json.loads(line[6:])["post_id"].removeprefix("po_")) for line in lines if line.startswith("data: ")
        ]
        last = [line[4:] for line in lines if line.startswith("id: ")][-1]
    assert found == list(range(100, 180))
