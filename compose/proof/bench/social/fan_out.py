"""Fan-out: deliveries beside what Valkey takes alone, how late a post is, and what very many followers cost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import redis

from compose.proof import limits
from compose.proof.bench.goals import at_least, at_most
from compose.proof.bench.social.graph import load_follows, load_users
from compose.proof.bench.social.people import spread, timed_ms
from sinks.redis.homes import Homes, HomeWriter, newest

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from compose.proof.bench.social.people import People
    from compose.proof.kit.own_stack import OwnStack

_AUTHORS: Final = 10
_WATCHED: Final = 100  # posts whose way into a home is watched
_LATE_FOLLOWERS: Final = 1_000
_CELEBRITY_FOLLOWERS: Final = 100_000
_POLL_S: Final = 0.002
_MS: Final = 1_000
_DELIVERIES_GOAL: Final = 200_000.0
_VISIBLE_GOAL_MS: Final = 300.0
_CELEBRITY_GOAL: Final = 1.5
_CELEBRITY_HOMES_GOAL: Final = 0.0
_DONE: Final = """
select coalesce(bool_and(coalesce(p.last_seq, 0) >= o.seq), true)
from (select partition, max(seq) as seq from outbox where topic = 'events.social.v1' group by 1) o
left join stream_position p on p.follower = 'social_fanout' and p.partition = o.partition
"""


class FanOutBench:
    """Measures on a stack of its own; its users are made by it."""

    def __init__(self, stack: OwnStack, people: People, connection: psycopg.Connection) -> None:
        self._stack = stack
        self._people = people
        self._connection = connection
        self._url = stack.settings.addresses().social_homes_url
        self._redis = redis.Redis.from_url(self._url)

    def run(self, followers: int, posts: int) -> dict[str, Any]:
        """Every figure."""
        authors = {f"u_author{n}": [f"u_fan{n}x{fan:05}" for fan in range(followers)] for n in range(_AUTHORS)}
        self._follow(authors)
        return self._drained(authors, posts) | self._late() | self._celebrity()

    def _follow(self, authors: dict[str, list[str]]) -> None:
        """Followers whose homes are built: from now on fan-out alone writes them."""
        fans = [fan for each in authors.values() for fan in each]
        most = max(map(len, authors.values()))
        load_users(self._connection, ((user, len(each)) for user, each in authors.items()), pushed_max=most)
        load_users(self._connection, ((fan, 0) for fan in fans))
        load_follows(self._connection, ((fan, user) for user, each in authors.items() for fan in each))
        asyncio.run(_begin_homes(self._url, fans))

    def _drained(self, authors: dict[str, list[str]], posts: int) -> dict[str, Any]:
        """Fan-out stands still while the posts are published, then it catches up: what it does in a second."""
        each = max(1, posts // len(authors))
        pids = list(self._stack.pids("social_fanout").values())
        _signal(pids, signal.SIGSTOP)
        try:
            began = time.monotonic()
            with ThreadPoolExecutor(len(authors)) as pool:
                last = dict(zip(authors, pool.map(lambda user: self._publish(user, each), authors), strict=True))
            published = time.monotonic() - began
        finally:
            _signal(pids, signal.SIGCONT)
        began, spent = time.monotonic(), self._spent()
        self._until({authors[user][-1]: post_id for user, post_id in last.items()})
        deliveries = each * sum(map(len, authors.values()))
        rate, per_core = deliveries / (time.monotonic() - began), deliveries / (self._spent() - spent)
        alone = self._alone(authors, each)
        return {
            "posts_per_s": round(each * len(authors) / published),
            **at_least("deliveries_per_s", round(rate), _DELIVERIES_GOAL),
            "deliveries_per_valkey_core_s": round(per_core),
            "valkey_alone_per_s": round(alone),
            "of_valkey_alone": round(rate / alone, 2),
        }

    def _publish(self, user: str, count: int) -> str:
        """Returns the id of the last one."""
        said = [
            {"operation": "POST /v1/posts", "idempotency_key": uuid.uuid4().hex, "payload": {"text": "post"}}
        ] * count
        lines = [json.dumps(one | {"idempotency_key": uuid.uuid4().hex}) for one in said]
        answers = self._people.send_lines(self._people.token(user), lines).splitlines()
        return str(json.loads(answers[-1])["result"]["post_id"])

    def _alone(self, authors: dict[str, list[str]], each: int) -> float:
        """Deliveries a second of the same shape, into homes as empty as those were, with nothing around them."""
        authors = {user: [f"{fan}alone" for fan in fans] for user, fans in authors.items()}
        asyncio.run(_begin_homes(self._url, [fan for fans in authors.values() for fan in fans]))
        writer = HomeWriter(self._url)
        now = time.time_ns() // 1_000
        began = time.monotonic()
        for fans in authors.values():
            writer.push([(fans, [(now + n, f"po_{uuid.uuid4().hex}") for n in range(each)])])
        took = time.monotonic() - began
        writer.close()
        return each * sum(map(len, authors.values())) / took

    def _late(self) -> dict[str, Any]:
        """Until the last of a thousand followers has a post at home: since it was sent, and since it was answered."""
        fans = [f"u_late{n:04}" for n in range(_LATE_FOLLOWERS)]
        self._follow({"u_prompt": fans})
        token = self._people.token("u_prompt")
        late, visible = list[float](), list[float]()
        for _ in range(_WATCHED):
            began = time.monotonic()
            post_id = self._people.send(token, "POST", "/v1/posts", {"text": "now"})["post_id"]
            late.append(timed_ms(lambda post_id=post_id: self._until({fans[-1]: post_id})))  # type: ignore[misc]
            visible.append((time.monotonic() - began) * _MS)
        figures = spread(late, "late") | spread(visible, "visible")
        return figures | at_most("visible_p99_ms", figures["visible_p99_ms"], _VISIBLE_GOAL_MS)

    def _celebrity(self) -> dict[str, Any]:
        """A post of somebody with very many followers writes no home, and costs its author what any post costs."""
        name = "u_celebrity"
        load_users(self._connection, [(name, _CELEBRITY_FOLLOWERS), ("u_nobody", 0)])
        crowd = [f"u_crowd{n}" for n in range(_CELEBRITY_FOLLOWERS)]
        load_users(self._connection, ((fan, 0) for fan in crowd))
        load_follows(self._connection, ((fan, name) for fan in crowd))
        tokens = self._people.token(name), self._people.token("u_nobody")
        self._caught_up()
        before = self._written()
        took: tuple[list[float], list[float]] = ([], [])
        for _ in range(_WATCHED):
            for one, token in enumerate(tokens):
                took[one].append(
                    timed_ms(lambda token=token: self._people.send(token, "POST", "/v1/posts", {"text": "x"}))  # type: ignore[misc]
                )
        self._caught_up()
        ordinary = sorted(took[1])[_WATCHED // 2]
        return {
            "celebrity_followers": _CELEBRITY_FOLLOWERS,
            **at_most("celebrity_homes_written", self._written() - before, _CELEBRITY_HOMES_GOAL),
            "celebrity_post_ms": round(sorted(took[0])[_WATCHED // 2], 1),
            **at_most("celebrity_of_any_post", sorted(took[0])[_WATCHED // 2] / ordinary, _CELEBRITY_GOAL),
        }

    def _spent(self) -> float:
        """Processor time of Valkey so far."""
        found = self._redis.info("cpu")
        return float(found["used_cpu_user"] + found["used_cpu_sys"])

    def _written(self) -> int:
        """Entries that anybody has written into homes so far."""
        return int(self._redis.info("commandstats").get("cmdstat_zadd", {}).get("calls", 0))

    def _caught_up(self) -> None:
        self._wait(lambda: self._connection.execute(_DONE).fetchall() == [(True,)])

    def _until(self, homes: dict[str, str]) -> None:
        """Each of these homes has its post."""

        def are_there() -> bool:
            pipeline = self._redis.pipeline(transaction=False)
            for user, post_id in homes.items():
                pipeline.zscore(f"millrace:social:home:{user}", post_id)
            return None not in pipeline.execute()

        self._wait(are_there)

    @staticmethod
    def _wait(is_so: Any) -> None:
        until = time.monotonic() + limits.BENCH_DRAIN_WAIT_S
        while not is_so():
            if time.monotonic() > until:
                raise TimeoutError("fan-out did not arrive")
            time.sleep(_POLL_S)


async def _begin_homes(url: str, users: Iterable[str]) -> None:
    homes = Homes(url, limits.BENCH_DRAIN_WAIT_S * 1_000)
    try:
        for user in users:
            await homes.finish(user, await homes.begin(user), newest([]))
    finally:
        await homes.close()


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)
