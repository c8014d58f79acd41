"""Fan-out is killed between two readings and in the middle of a turn of what waits, while edges and posts end meanwhile."""

from __future__ import annotations

import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import redis

from schemas.social import limits
from tests.eventually import becomes, patient
from tests.services.counter_world import process
from tests.worlds.social_system import SocialUser, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers, pytest.mark.faults, pytest.mark.timeout(300)]
WAITS = "select count(*) from fanout_waiting"
KEY = "millrace:social:home:"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    with social_system(tmp_path_factory.mktemp("fanout_killed")) as made:  # fan-out runs when a test says so
        yield made


@pytest.fixture
def valkey(system: PublicSystem) -> Iterator[redis.Redis]:
    with closing(redis.Redis.from_url(system.settings.addresses().social_homes_url)) as client:
        yield client


def stored(valkey: redis.Redis, user: SocialUser) -> list[str]:
    """What lies in a home, shown or not, the newest first."""
    found = valkey.zrevrange(KEY + user.name, 0, -1)
    return [one.decode() for one in found if not one.startswith((b"~", b"#"))]  # type: ignore[union-attr]


def test_what_waits_is_lost_by_no_kill_and_reaches_nobody_whose_edge_ended_before(
    system: PublicSystem, valkey: redis.Redis
) -> None:
    """Killed before a turn and in it, with an unfollow, a block, a deletion and a new follow before the next process."""
    author, stays, leaves, blocks, comes = (SocialUser(system) for _ in range(5))
    author.read("/v1/me")
    for fan in (stays, leaves, blocks):
        fan.follow(author)
    with process(system, "social_fanout", ""):
        becomes(lambda: system.rows(WAITS), [(0,)], 60)
        for fan in (stays, leaves, blocks, comes):
            assert fan.home == []  # built now: what comes from here on, only fan-out brings
            left_s = int(limits.HOME_TTL_S - limits.FANOUT_SEEN_S - 9)
            assert valkey.expire(KEY + fan.name, left_s)  # as if nobody had read it for a day
    made = [author.post(f"number {n}")["post_id"] for n in range(3)]
    comes.follow(author)
    for point in ("fanout_before_turn", "fanout_in_turn"):
        with process(system, "social_fanout", point) as dying:
            assert dying.wait(timeout=patient(60)) == -signal.SIGKILL
        assert system.rows(WAITS) != [(0,)], "what waits is still there"
    leaves.do("DELETE", f"/v1/follows/{author.name}")
    blocks.do("PUT", f"/v1/blocks/{author.name}")
    author.do("DELETE", f"/v1/posts/{made[1]}", version=1)
    left = made[2], made[0]
    for fan in (leaves, blocks):
        valkey.delete(KEY + fan.name)
        assert fan.home == []  # built anew, since their edges ended
    with process(system, "social_fanout", ""):
        made.append(author.post("afterwards")["post_id"])
        for fan in (stays, comes):
            becomes(lambda fan=fan: stored(valkey, fan), [made[3], *left], 60)  # type: ignore[misc]
            assert fan.home == [made[3], *left]
        becomes(lambda: system.rows(WAITS), [(0,)], 60)
        assert [(stored(valkey, fan), fan.home) for fan in (leaves, blocks)] == [([], [])] * 2
