"""Who sees what, on every surface, after every step of a random history, with fan-out standing still; then it catches up.

Nothing may be shown that the reference hides, whatever is stale; what is not made by fan-out is shown at once. In the
end homes are exact, and stay so when the whole stream is read again.
"""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from dataflows.social.fanout import worker as fanout_worker
from dataflows.worker.contract import WorkerPlace
from schemas.senders import of_worker
from tests.eventually import becomes
from tests.seeds import seeds
from tests.worlds.social_reference import Reference, Said
from tests.worlds.social_system import SocialUser, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
STEPS = 70


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home: Path = tmp_path_factory.mktemp("social_model")
    with social_system(home) as made:
        yield made


class History:
    """Random steps, each taken by the service and by the reference."""

    def __init__(self, system: PublicSystem, seed: int) -> None:
        self.random = random.Random(seed)
        self.users = {user.name: user for user in (SocialUser(system) for _ in range(4))}
        for user in self.users.values():
            user.read("/v1/me")
            assert user.home == []  # built now: from here on fan-out alone brings what others post
        self.names = list(self.users)
        self.model = Reference()

    def step(self) -> str:
        """One of them; those that the reference would refuse are left out."""
        name = self.random.choice(self.names)
        other = self.random.choice([n for n in self.names if n != name])
        moves = [self._post] * 4 + [self._edit, self._delete, self._react, self._react]
        moves += [self._follow] * 4 + [self._block, self._mute, self._privacy, self._accept]
        move = self.random.choice(moves)
        move(name, other)
        return f"{move.__name__} {name} {other}"

    def _any(self, viewer: str, *, own: bool = False) -> str | None:
        found = sorted(p for p in self.model.seen(viewer) if not own or self.model.posts[p].author == viewer)
        return self.random.choice(found) if found else None

    def _post(self, name: str, _: str) -> None:
        target, fields = (
            self._any(name),
            {"visibility": self.random.choice(["public", "public", "followers", "private"])},
        )
        if target and self.random.random() < 0.4:
            fields["reply_to"] = target
        elif target and self.model.is_open(target):
            fields["quote_of"] = target
        made = self.users[name].post(f"common @{self.random.choice(self.names)}", **fields)
        post = Said(name, fields["visibility"], fields.get("reply_to"), fields.get("quote_of"))
        self.model.posts[made["post_id"]] = post

    def _edit(self, name: str, _: str) -> None:
        if post_id := self._any(name, own=True):
            visibility = self.random.choice(["public", "followers", "private"])
            path = f"/v1/posts/{post_id}"
            version = self.users[name].read(path)["version"]
            self.users[name].do("PATCH", path, {"visibility": visibility}, version=version)
            self.model.posts[post_id].visibility = visibility

    def _delete(self, name: str, _: str) -> None:
        if post_id := self._any(name, own=True):
            path = f"/v1/posts/{post_id}"
            self.users[name].do("DELETE", path, version=self.users[name].read(path)["version"])
            self.model.posts[post_id].is_deleted = True

    def _react(self, name: str, _: str) -> None:
        if post_id := self._any(name):
            self.users[name].do("POST", f"/v1/posts/{post_id}/likes")
            reposted = (name, post_id) in self.model.reposts
            if reposted:
                self.users[name].do("DELETE", f"/v1/posts/{post_id}/reposts")
                self.model.reposts.discard((name, post_id))
            elif self.model.is_open(post_id):
                self.users[name].do("POST", f"/v1/posts/{post_id}/reposts")
                self.model.reposts.add((name, post_id))

    def _follow(self, name: str, other: str) -> None:
        if self.model.blocked(name, other):
            assert self.users[name].send("PUT", f"/v1/follows/{other}").status_code == 404
        elif self.model.is_following(name, other) and self.random.random() < 0.3:
            self.users[name].do("DELETE", f"/v1/follows/{other}")
            self.model.follows[name, other] = "removed"
        else:
            self.users[name].do("PUT", f"/v1/follows/{other}")
            self.model.follow(name, other)

    def _accept(self, name: str, _: str) -> None:
        for (one, other), state in list(self.model.follows.items()):
            if other == name and state == "requested":
                self.users[name].do("POST", f"/v1/follows/requests/{one}/accept")
                self.model.follows[one, other] = "active"

    def _block(self, name: str, other: str) -> None:
        if (name, other) in self.model.blocks:
            self.users[name].do("DELETE", f"/v1/blocks/{other}")
            self.model.blocks.discard((name, other))
        elif not self.model.blocked(name, other):
            self.users[name].do("PUT", f"/v1/blocks/{other}")
            self.model.block(name, other)

    def _mute(self, name: str, other: str) -> None:
        if (name, other) in self.model.mutes:
            self.users[name].do("DELETE", f"/v1/mutes/{other}")
            self.model.mutes.discard((name, other))
        elif not self.model.blocked(name, other):
            self.users[name].do("PUT", f"/v1/mutes/{other}")
            self.model.mutes.add((name, other))

    def _privacy(self, name: str, _: str) -> None:
        self.users[name].do("PATCH", "/v1/me", {"is_private": name not in self.model.private})
        self.model.private ^= {name}

    def make_peace(self) -> None:
        """In the end everybody follows everybody, and posts once more: fan-out has something to do."""
        for name, other in sorted(self.model.blocks):
            self._block(name, other)
        for name in sorted(self.model.private):
            self._privacy(name, "")
        for name in self.names:
            for other in self.names:
                if name != other and not self.model.is_following(name, other):
                    self._follow(name, other)
        self.post_once_more()

    def post_once_more(self) -> None:
        """A public post of everybody."""
        for name in self.names:
            made = self.users[name].post("common in the end")
            self.model.posts[made["post_id"]] = Said(name, "public")

    def differs(self) -> dict[str, Any]:
        """What a surface shows otherwise than the reference, for any viewer; nothing is what is wanted."""
        found: dict[str, Any] = {}
        for viewer, user in self.users.items():
            seen = self.model.seen(viewer)
            found |= self._lists(viewer, user, seen)
            found |= self._ones(viewer, user, seen)
        return found

    def _lists(self, viewer: str, user: SocialUser, seen: set[str]) -> dict[str, Any]:
        posts, model = self.model.posts, self.model
        wanted: dict[str, set[str]] = {
            "/v1/timelines/public": {p for p in seen if model.is_open(p)},
            "/v1/search": seen,
        }
        for author in self.names:
            wanted[f"/v1/timelines/user/{author}"] = {p for p in seen if posts[p].author == author}
        shown = {path: user.ids(path, **({"q": "common"} if "search" in path else {})) for path in wanted}
        found = {f"{viewer} {path}": shown[path] for path in wanted if sorted(shown[path]) != sorted(wanted[path])}
        home, own = user.home, {p for p in seen if posts[p].author == viewer}
        if not own <= set(home) <= model.home(viewer) or len(home) != len(set(home)):
            found[f"{viewer} home"] = home
        told = {n["post_id"] for n in user.walk("/v1/notifications")} - {None}
        if not told <= seen:
            found[f"{viewer} told"] = told - seen
        return found

    def _ones(self, viewer: str, user: SocialUser, seen: set[str]) -> dict[str, Any]:
        """A few posts by themselves: the answer, its versions, its quote, its thread."""
        found: dict[str, Any] = {}
        for post_id in self.random.sample(sorted(self.model.posts), min(3, len(self.model.posts))):
            post, answer = self.model.posts[post_id], user.get(f"/v1/posts/{post_id}")
            hidden = 410 if post.is_deleted and post.author == viewer else 404
            status = 200 if post_id in seen else hidden
            if {answer.status_code, user.get(f"/v1/posts/{post_id}/versions").status_code} != {status}:
                found[f"{viewer} {post_id}"] = answer.text
            elif status == 200:
                if post.quote_of and answer.json()["quote"].get("unavailable", False) == (post.quote_of in seen):
                    found[f"{viewer} quote of {post_id}"] = answer.json()["quote"]
                replies = sum(self.model.posts[other].reply_to == post_id for other in seen)
                if answer.json()["counts"]["replies"] != replies:
                    found[f"{viewer} count of {post_id}"] = answer.json()["counts"], replies
                if not set(user.ids(f"/v1/timelines/thread/{post_id}")) <= seen:
                    found[f"{viewer} thread of {post_id}"] = answer.text
        return found


@contextmanager
def fanning_out(system: PublicSystem, name: str = "social_fanout") -> Iterator[None]:
    """One worker in a thread; under another name it reads the whole stream again."""
    settings = system.settings
    place = WorkerPlace(
        name="social_fanout",
        kafka=settings.kafka_as(of_worker("social_fanout")),
        postgres_dsn=settings.addresses().postgres_dsns["millrace_social_worker"],
        redis_url=settings.addresses().redis_url,
        media=settings.media_origin(),
        client_id=f"{name}-test",
    )
    worker = fanout_worker.build(replace(place, name=name))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


@pytest.mark.parametrize("seed", seeds(1))
def test_nobody_ever_sees_what_is_not_for_them(system: PublicSystem, seed: int) -> None:
    history = History(system, seed)
    for n in range(STEPS):
        step = history.step()
        assert history.differs() == {}, f"seed {seed}, step {n}: {step}"
    history.make_peace()
    assert history.differs() == {}
    wanted = {name: history.model.home(name) for name in history.names}
    assert wanted != {name: set(user.home) for name, user in history.users.items()}, "fan-out had nothing to do"
    with fanning_out(system):
        becomes(lambda: {name: set(user.home) for name, user in history.users.items()}, wanted)
        # Homes of which an edge ended were built anew; what comes now, fan-out alone brings into homes that are there.
        history.post_once_more()
        wanted = {name: history.model.home(name) for name in history.names}
        becomes(lambda: {name: set(user.home) for name, user in history.users.items()}, wanted)
    homes = {name: user.home for name, user in history.users.items()}
    with fanning_out(system, "social_fanout_again"):
        ends = "select partition, max(seq) from outbox where topic = 'events.social.v1' group by 1 order by 1"
        read = "select partition, last_seq from stream_position where follower = 'social_fanout_again' and last_seq > 0 order by 1"
        becomes(lambda: system.rows(read), system.rows(ends))
    assert {name: user.home for name, user in history.users.items()} == homes
    assert history.differs() == {}
