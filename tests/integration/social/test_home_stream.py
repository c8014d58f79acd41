"""The stream of a home on real processes: over a drain of the ingress, and while the home is made anew."""

from __future__ import annotations

import json
import os
import signal
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

import httpx
import pytest
import redis

from tests.eventually import eventually, patient
from tests.worlds.social_system import SocialUser, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
PATH = "/v1/timelines/home/stream"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home: Path = tmp_path_factory.mktemp("social")
    with social_system(home, "social_fanout") as made:
        yield made


def users(system: PublicSystem, count: int) -> list[SocialUser]:
    """They exist from their first calls on."""
    found = [SocialUser(system) for _ in range(count)]
    assert [user.home for user in found] == [[]] * count
    return found


class Heard:
    """A reader of its home that opens the stream again, where it ended, until its block ends."""

    def __init__(self, user: SocialUser) -> None:
        self.told: list[str] = []
        self.opened = self.ended = 0  # streams that began; that came to their own end
        self._user = user
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            eventually(lambda: self.opened, 30, what="the stream is open")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        self._thread.join(patient(30))

    def _listen(self) -> None:
        last = {}
        while not self._stops.is_set():
            try:
                with self._user.http.stream("GET", PATH, headers=self._user.auth | last, timeout=patient(20)) as stream:
                    for line in stream.iter_lines():
                        name, _, value = line.partition(": ")
                        if name == "id":
                            last = {"Last-Event-ID": value}
                            self.opened += line.startswith("id: ~")
                        elif name == "data":
                            self.told.append(json.loads(value)["post_id"])
                        if self._stops.is_set():
                            return
                    self.ended += stream.status_code == httpx.codes.OK
            except httpx.TransportError:
                self._stops.wait(0.1)  # nobody listens yet


def posted(user: SocialUser, count: int) -> list[str]:
    """Posts that are sent again until they are answered."""

    def answered(key: str) -> str | None:
        try:
            answer = user.send("POST", "/v1/posts", {"text": "told"}, key=key)
        except httpx.TransportError:
            return None
        return str(answer.json()["result"]["post_id"]) if answer.status_code == httpx.codes.CREATED else None

    keys = [uuid.uuid4().hex for _ in range(count)]
    return [eventually(lambda key=key: answered(key), 60, what="the post is answered") for key in keys]


def test_a_drain_ends_streams_and_the_next_one_tells_the_rest_once(system: PublicSystem) -> None:
    """Whatever is posted before, meanwhile and after."""
    author, *fans = users(system, 4)
    for fan in fans:
        fan.follow(author)
    with ExitStack() as streams:
        heard = [streams.enter_context(Heard(fan)) for fan in fans]
        made = posted(author, 3)
        eventually(lambda: all(one.told == made for one in heard), 60, what="the first ones are told")
        before = system.serving()
        with ThreadPoolExecutor(1) as pool:
            meanwhile = pool.submit(posted, author, 10)
            for pid in before:
                os.kill(pid, signal.SIGTERM)
            made += meanwhile.result()
        eventually(lambda: not set(before) & set(system.serving()), 60, what="another process serves")
        made += posted(author, 3)
        eventually(lambda: all(set(one.told) == set(made) for one in heard), 60, what="the rest is told")
    assert [sorted(one.told) for one in heard] == [sorted(made)] * len(fans), "each once"
    assert all(one.ended for one in heard), "a stream ends by itself and is not cut off"


def test_a_home_that_is_made_anew_while_a_stream_is_open_tells_nothing_again(system: PublicSystem) -> None:
    author, left, fan = users(system, 3)
    fan.follow(author)
    fan.follow(left)
    old = posted(author, 2) + posted(left, 2)
    eventually(lambda: set(fan.home) == set(old), 60)
    with Heard(fan) as heard:
        fan.do("DELETE", f"/v1/follows/{left.name}")  # ends the home
        first = posted(author, 2)
        posted(left, 1)
        eventually(lambda: heard.told == first, 60, what="what came since")
        with redis.Redis.from_url(str(system.settings.addresses().social_homes_url)) as homes:
            homes.flushdb()
        second = posted(author, 2)
        eventually(lambda: heard.told == first + second, 60, what="what came since")
    assert heard.told == first + second


def heard_until(user: SocialUser, last: str, wanted: str | None = None) -> tuple[list[str], str]:
    """What one stream tells until this post, or at its first look, and the id with which the next one goes on."""
    found: list[str] = []
    after = {"Last-Event-ID": last} if last else {}
    with user.http.stream("GET", PATH, headers=user.auth | after, timeout=patient(20)) as stream:
        looked = False
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                last = value
            elif name == "data":
                found.append(json.loads(value)["post_id"])
            looked = looked or name == "data" or line.startswith(": alive")
            if (found[-1:] == [wanted]) if wanted else (looked and not line):
                break
    return found, last


@pytest.mark.parametrize("hides", ["a mute", "its author"])
def test_what_was_hidden_all_through_a_stream_is_not_told_again_by_the_next_one(
    system: PublicSystem, hides: str
) -> None:
    one, other, fan = users(system, 3)
    fan.follow(one, other)
    _, last = heard_until(fan, "")
    post = other.post("told once")
    path = f"/v1/posts/{post['post_id']}"
    told, last = heard_until(fan, last, post["post_id"])
    assert told == [post["post_id"]]
    if hides == "a mute":
        fan.do("PUT", f"/v1/mutes/{other.name}")
    else:
        other.do("PATCH", path, {"visibility": "private"}, version=1)
    new = posted(one, 1)
    told, last = heard_until(fan, last, new[0])
    assert told == new
    if hides == "a mute":
        fan.do("DELETE", f"/v1/mutes/{other.name}")
    else:
        other.do("PATCH", path, {"visibility": "public"}, version=2)
    eventually(lambda: set(fan.home) == {post["post_id"], *new}, 60, what="it is at home again")
    assert heard_until(fan, last)[0] == [], "it was told before"
