"""The social act of the demo: posts into homes, a privacy change, a takedown, an erasure; each looked at."""

from __future__ import annotations

import io
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import httpx
from PIL import Image

from compose.proof import limits
from compose.proof.demo.beside import beside, take
from compose.proof.social.client import SocialClient
from ingress.identity.issuer import KeyFolder

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from compose.proof.demo.social_cast import Cast
    from compose.proof.kit.own_stack import OwnStack

_AT_ONCE: Final = 4
_SIDE: Final = 640
_FOUND, _MISSING = 200, 404
_ERASED: Final = 1  # by number: two who are not the centre
_SEEN_AT_LEAST: Final = 2


@dataclass(slots=True)
class SocialPlay:
    """What the act came to; ``problems`` empty: everything was as it must be."""

    posts: int = 0
    homes: int = 0
    steps: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def is_ok(self) -> bool:
        """Whether every step was taken and held."""
        return not self.problems and bool(self.homes)

    def pairs(self) -> dict[str, int]:
        """The figures for the demo's last line."""
        return {"social_posts": self.posts, "social_homes_exact": self.homes, "social_steps": len(self.steps)}


def social_playing(stack: OwnStack, cast: Cast) -> AbstractContextManager[Callable[[], SocialPlay]]:
    """Plays beside the block, which asks for what came of it."""
    return beside("social-act", lambda: _play(stack, cast))


def _play(stack: OwnStack, cast: Cast) -> SocialPlay:
    play = SocialPlay()
    with httpx.Client(base_url=stack.world["base_url"], timeout=limits.DEMO_ACT_WAIT_S, trust_env=False) as http:
        stage = _Stage(http, KeyFolder(stack.home / "keys"), cast, play)
        take((stage.tell_all, stage.turn_private, stage.take_down, stage.erase), play, "social posts")
    return play


class _Stage:
    """The steps, in their order. What is not as it must be becomes a problem of the play."""

    def __init__(self, http: httpx.Client, keys: KeyFolder, cast: Cast, play: SocialPlay) -> None:
        run = uuid.uuid4().hex[:6]
        self._cast, self._play = cast, play
        self._users = [SocialClient(http, keys, f"u_demo_{run}_{n}") for n in range(len(cast.texts))]
        self._stranger = SocialClient(http, keys, f"u_demo_{run}_stranger")
        self._moderator = SocialClient(http, keys, f"u_demo_{run}_moderator", ("moderator",))
        self._posts: list[str] = []

    def tell_all(self) -> None:
        """Everybody follows as the graph says and posts; every home is exact, with each post once."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda user: user.home, [*self._users, self._stranger, self._moderator]))
            list(pool.map(self._follow, sorted(self._cast.follows)))
            posts = pool.map(lambda user, text: user.post(text), self._users, self._cast.texts)
            self._posts = [post["post_id"] for post in posts]
        self._play.posts = len(self._posts)
        for n, user in enumerate(self._users):
            wanted = sorted(self._posts[m] for m in (n, *self._cast.followed(n)))
            self._moderator.becomes(f"the home of user {n}", lambda user=user: sorted(user.home), wanted)  # type: ignore[misc]
            self._play.homes += 1

    def turn_private(self) -> None:
        """The best known account turns private: from the answer on strangers see nothing of it, followers all."""
        centre, post = self._users[0], self._posts[0]
        follower = self._users[self._cast.followers(0)[0]]
        path = f"/v1/posts/{post}"
        self._require("a stranger before", self._stranger.get(path).status_code, _FOUND)
        centre.do("PATCH", "/v1/me", {"is_private": True})
        self._require("a stranger after", self._stranger.get(path).status_code, _MISSING)
        self._require("its timeline", self._stranger.ids(f"/v1/timelines/user/{centre.name}"), [])
        self._require("the public timeline", post in self._stranger.ids("/v1/timelines/public"), False)
        self._require("a follower after", follower.get(path).status_code, _FOUND)

    def take_down(self) -> None:
        """A picture that was seen is removed: with every consumer verified its old address is dead, in caches too."""
        author = self._users[_ERASED + 1]
        media = author.upload(_picture())
        post = author.post("a picture", media_ids=[media])["post_id"]
        shown = self._stranger.get(f"/v1/posts/{post}").raise_for_status().json()["media"]
        urls = [rendition["url"] for one in shown for rendition in one["renditions"]]
        self._require("two renditions", len(urls) >= _SEEN_AT_LEAST, True)
        self._require("the picture before", {author.fetch(url) for url in urls}, {_FOUND})
        said = {"object_id": media, "decision": "remove", "reason": "the demo's takedown", "policy_version": 1}
        decided = self._moderator.do("POST", "/v1/moderation/decisions", said)["decision_id"]
        where = f"/v1/moderation/decisions/{decided}/propagation"
        self._moderator.becomes("propagation", lambda: self._moderator.get(where).json().get("state"), "verified")
        self._require("the picture after", {author.fetch(url) for url in urls}, {_MISSING})

    def erase(self) -> None:
        """An account is erased: nobody sees it from the answer on, and a certificate says what was taken away."""
        user, post = self._users[_ERASED], self._posts[_ERASED]
        self._require("the post before", self._stranger.get(f"/v1/posts/{post}").status_code, _FOUND)
        user.do("POST", "/v1/me/erasure", {"confirm": user.name})
        self._require("the post after", self._stranger.get(f"/v1/posts/{post}").status_code, _MISSING)
        self._moderator.becomes("the erasure", lambda: user.get("/v1/me/erasure").json().get("state"), "complete")
        certificate = user.get("/v1/me/erasure").json()["certificate"]
        self._require("what is reachable", certificate["reachable"], 0)
        self._require("posts taken away", certificate["counts"]["posts"], 1)

    def _follow(self, pair: tuple[int, int]) -> None:
        one, other = pair
        self._users[one].do("PUT", f"/v1/follows/{self._users[other].name}")

    def _require(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self._play.problems.append(f"social posts: {what}: {found!r}, must be {wanted!r}")


def _picture() -> bytes:
    made = io.BytesIO()
    Image.linear_gradient("L").resize((_SIDE, _SIDE)).convert("RGB").save(made, "PNG")
    return made.getvalue()
