"""Homes in Valkey: ids of posts and when they were published, nothing else. All of it may be lost: readers rebuild it.

Who may see a post is never decided here. A home without the marker of the running server counts as none.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from importlib import resources
from typing import Final, NamedTuple

from prometheus_client import Counter
from redis.exceptions import RedisError

from schemas import errors
from schemas.social import limits
from sinks.redis.connection import connect, connect_blocking
from sinks.redis.line import KeptLine, LineLost, Refusal, script_call

Place = tuple[int, str]  # when it was published, in microseconds, and its id
Push = tuple[Sequence[str], Sequence[Place]]  # homes, and the posts that go into each
Left = tuple[int, Sequence[str]]  # which of several pushes, and homes
_PREFIX: Final = "millrace:social:home:"
_MS: Final = 1_000
_BUILDING: Final = 8_900_000_000_000_000  # above every time, below what marks a complete home
_TOKENS: Final = 1_000_000_000
_ANY: Final = -1  # building
# Rising: the server is nearly full. Readers build these homes from Postgres, at more cost: give it more memory.
_ENDED: Final = Counter("millrace_social_homes_ended", "Homes that ended for want of memory")


def _script(name: str) -> str:
    return (resources.files("sinks.redis") / "scripts" / "social" / f"{name}.lua").read_text()


def _key(user_id: str) -> str:
    return _PREFIX + user_id


class Part(NamedTuple):
    """Places of one home, newest first. There are more at or below ``floor``, in Postgres alone; 0: there are none."""

    places: list[Place]
    floor: int


def newest(posts: list[Place]) -> Part:
    """Of so many of the newest posts as a home keeps, or of all there are: what stands above its floor."""
    floor = min(at for at, _ in posts) if len(posts) >= limits.HOME_POSTS_KEPT else 0
    return Part([place for place in posts if place[0] > floor], floor)


def _bounds() -> tuple[int, int, int]:
    """How many posts a home keeps, how many it holds before it is shortened to these, and the share of the memory."""
    kept, spare = limits.HOME_POSTS_KEPT, limits.HOME_POSTS_SPARE
    return kept, kept + spare, limits.HOMES_KEPT_MEMORY_PERCENT


def _flat(posts: Sequence[Place]) -> list[int | str]:
    return [value for place in posts for value in place]


def _left(sent: Sequence[Left], answers: Sequence[list[int]]) -> list[Left]:
    """The homes of each call that were left for later."""
    found = zip(sent, answers, strict=True)
    return [(pair, [users[n - 1] for n in later]) for (pair, users), (_, _, *later) in found if later]


class Homes:
    """Homes as readers have them, in one process. Every method raises Unavailable within its timeout."""

    def __init__(self, url: str, timeout_ms: int = limits.HOME_TIMEOUT_MS) -> None:
        self._line = KeptLine(url, timeout_ms / _MS)  # reads are many: all of one moment travel together
        self._redis = connect(url, timeout_ms)
        self._read = self._redis.register_script(_script("home_read"))
        self._read_sha = self._read.sha.encode()
        self._begin = self._redis.register_script(_script("home_begin"))
        self._finish = self._redis.register_script(_script("home_finish"))

    async def read(self, user_id: str, before: Place, count: int) -> Part | None:
        """So many places before this one, above the floor; None where there is no complete home."""
        try:
            # of one time there may be several: all of them are read, and those that were read before are dropped
            highest = min(before[0], _BUILDING - 1)  # below the marker
            found = await self._told(_key(user_id), [highest, count + limits.HOME_EQUAL_TIMES, limits.HOME_TTL_S])
        except (RedisError, LineLost, OSError) as error:
            raise errors.Unavailable(cause=type(error).__name__) from error
        if not found:
            return None
        floor, *flat = found.split()
        places = [(int(float(at)), post_id) for post_id, at in zip(flat[::2], flat[1::2], strict=True)]
        return Part([place for place in places if place < before][:count], int(floor))

    async def _told(self, key: str, arguments: Sequence[int]) -> str:
        """What the script says; where it is not loaded, who may loads it. Raises RedisError, LineLost, OSError."""
        words = script_call(self._read_sha, [key.encode()], [str(one).encode() for one in arguments])
        found = await self._line.asked(words)
        if isinstance(found, Refusal):
            found = (await self._read([key], arguments) or b"").decode()
        return str(found)

    async def begin(self, user_id: str) -> int:
        """From here on what is pushed stays in the home. Returns the token of the building.

        0 when it is complete, or homes have their share of the server's memory: then it is not kept.
        """
        token = _BUILDING + random.randrange(_TOKENS)
        arguments = [token, limits.HOME_TTL_S, limits.HOMES_BEGUN_MEMORY_PERCENT]
        try:
            return token if await self._begin([_key(user_id)], arguments) else 0
        except (RedisError, OSError) as error:
            raise errors.Unavailable(cause=type(error).__name__) from error

    async def finish(self, user_id: str, token: int, part: Part) -> None:
        """Adds what was read since ``begin``: the ``newest``. Where somebody began later, that one finishes."""
        arguments = [token, limits.HOME_TTL_S, part.floor, *_flat(part.places)]
        try:
            await self._finish([_key(user_id)], arguments)
        except (RedisError, OSError) as error:
            raise errors.Unavailable(cause=type(error).__name__) from error

    async def close(self) -> None:
        """Disconnects."""
        self._line.close()
        await self._redis.aclose()


class HomeWriter:
    """Homes as fan-out has them. Every method may be repeated, and raises redis' own errors."""

    deliveries: int = 0  # entries that were written or there already, in homes that take them

    def __init__(self, url: str, timeout_ms: int = limits.HOME_TIMEOUT_MS) -> None:
        self._redis = connect_blocking(url, timeout_ms, "millrace-social-fanout")
        self._push = self._redis.register_script(_script("home_push"))
        self._building = self._redis.register_script(_script("home_building"))

    def push(self, pushes: Sequence[Push], *, seen_s: float | None = None) -> list[Left]:
        """For each pair: these posts into these homes, each once; where memory ends, a home does, too.

        Homes that were not read for ``seen_s`` are left alone, and returned with the number of their pair. What one
        call does is bounded, others wait for it.
        """
        pipeline = self._redis.pipeline(transaction=False)
        sent: list[Left] = []
        left: list[Left] = []
        deliveries = 0
        later = 0 if seen_s is None else max(1, int(limits.HOME_TTL_S - seen_s))
        for pair, (users, posts) in enumerate(pushes):
            if not posts:
                continue
            arguments = [*_bounds(), _ANY, later, *_flat(posts)]
            at_once = max(1, limits.HOME_DELIVERIES_AT_ONCE // len(posts))
            for n in range(0, len(users), at_once):
                sent.append((pair, users[n : n + at_once]))
                self._push([_key(user) for user in users[n : n + at_once]], arguments, client=pipeline)
            deliveries += len(users) * len(posts)
            if deliveries >= limits.HOME_DELIVERIES_SENT_MAX:
                left += _left(sent, self._counted(pipeline.execute()))
                deliveries, sent = 0, []
        return left + _left(sent, self._counted(pipeline.execute()))

    def _counted(self, answers: list[list[int]]) -> list[list[int]]:
        """The same; homes that ended and entries are counted."""
        _ENDED.inc(sum(ended for ended, *_ in answers))
        self.deliveries += sum(delivered for _, delivered, *_ in answers)
        return answers

    def building_of(self, user_id: str) -> int | None:
        """Which building the home is of; None where there is none, and its next reader builds it."""
        found = self._building([_key(user_id)])
        return None if found is None else int(found)

    def fill(self, user_id: str, building: int, posts: Sequence[Place]) -> None:
        """These posts into the home of that building, each once; none where it ended since, whatever is there now.

        So what was read for an edge of before reaches no home that was dropped for its end.
        """
        if posts:
            self._counted([self._push([_key(user_id)], [*_bounds(), building, 0, *_flat(posts)])])

    def forget(self, users: Sequence[str], post_id: str) -> None:
        """A post that nobody may see any more, out of these homes."""
        pipeline = self._redis.pipeline(transaction=False)
        for user in users:
            pipeline.zrem(_key(user), post_id)
        pipeline.execute()

    def drop(self, users: Sequence[str]) -> None:
        """These homes: their readers build them anew."""
        if users:
            self._redis.unlink(*[_key(user) for user in users])  # their memory is freed beside, holding up nobody

    def are_there(self, users: Sequence[str]) -> int:
        """How many of these have a home, whatever is in it."""
        return int(self._redis.exists(*[_key(user) for user in users])) if users else 0

    def close(self) -> None:
        """Disconnects."""
        self._redis.close()
