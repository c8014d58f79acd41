"""Reads of homes at a fixed rate whatever the server does, and what the rule of who sees a post costs in them."""

from __future__ import annotations

import asyncio
import random
import time
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import psycopg
import uvloop

from compose.proof import limits as proof_limits
from compose.proof.bench.cpu import cpu_seconds
from compose.proof.bench.goals import at_most
from compose.proof.bench.http.connection import Connection
from compose.proof.bench.http.latency import Latencies
from compose.proof.bench.social.graph import name_of
from compose.proof.bench.social.people import spread, timed_ms
from ingress import limits as ingress_limits
from ingress.social.pager import NEWEST, OLDEST
from schemas.social import limits as social_limits
from sinks.postgres.session import INDEXED

if TYPE_CHECKING:
    from compose.proof.bench.social.people import People
    from compose.proof.kit.own_stack import OwnStack

_READERS: Final = 500  # each by a connection of its own: of a few, the kernel gives most to one process
_COLD: Final = 50
_RATE_PER_S: Final = 500.0
_OK: Final = 200
_VIEWERS: Final = 200  # whose homes are read with the rule and without it
_ROUNDS: Final = 5
_SERVING: Final = ("ingress", "postgres", "redis")  # whose processor time a read takes
_MS: Final = 1_000
_P99_GOAL_MS: Final = 15.0
_RULE_GOAL: Final = 2.0
_RULE: Final = "exists (select from social_sees(%(viewer)s::text, p.post_id, p.author_id, p.visibility, p.state))"
_SESSION: Final = f"{INDEXED} -c jit=off -c plan_cache_mode=force_generic_plan"


def read_homes(people: People, stack: OwnStack, users: int, seconds: float) -> dict[str, Any]:
    """Built once by each of the readers, then read at the rate; a latency counts from when a read was due."""
    serving = {name: list(stack.pids(name).values()) for name in _SERVING}
    chance = random.Random(0)
    tokens = [people.token(name_of(n)) for n in chance.sample(range(users), min(users, _READERS))]
    cold = [timed_ms(lambda token=token: people.home(token)) for token in tokens]  # type: ignore[misc]
    count = int(_RATE_PER_S * (seconds + proof_limits.BENCH_CLOSED_WARM_UP_S))
    before = cpu_seconds(serving)
    found, refused = uvloop.run(_read_at_rate(people.base_url, tokens, count))
    spent, warm = cpu_seconds(serving), found.summary()
    return {
        **spread(cold[:_COLD], "built"),
        "rate_per_s": _RATE_PER_S,
        "reads": found.count,
        "not_answered": refused,
        "read_core_ms": {name: round((spent[name] - before[name]) * _MS / count, 2) for name in serving},
        "read_p50_ms": warm.get("p50_ms"),
        **at_most("read_p99_ms", warm.get("p99_ms", 0.0), _P99_GOAL_MS),
    }


async def _read_at_rate(base_url: str, tokens: list[str], count: int) -> tuple[Latencies, int]:
    place = urlsplit(base_url)
    host, port = str(place.hostname), int(place.port or 0)
    path = f"GET /v1/timelines/home?limit={ingress_limits.PAGE_LIMIT_DEFAULT} HTTP/1.1\r\nHost: {host}:{port}\r\n"
    requests = [f"{path}Authorization: Bearer {token}\r\n\r\n".encode() for token in tokens]
    found, refused, due = Latencies(), 0, asyncio.Queue[tuple[float, bytes] | None]()
    counts_from = time.perf_counter() + proof_limits.BENCH_CLOSED_WARM_UP_S

    async def work() -> None:
        nonlocal refused
        connection = Connection(host, port)
        try:
            while (one := await due.get()) is not None:
                answer = await connection.ask(one[1])
                if one[0] >= counts_from and answer.status == _OK:
                    found.record(time.perf_counter() - one[0])
                refused += answer.status != _OK
        finally:
            connection.close()

    workers = [asyncio.create_task(work()) for _ in tokens]
    began = time.perf_counter()
    for n in range(count):
        at = began + n / _RATE_PER_S
        if (pause := at - time.perf_counter()) > 0:
            await asyncio.sleep(pause)
        due.put_nowait((at, requests[n % len(requests)]))
    for _ in workers:
        due.put_nowait(None)
    await asyncio.gather(*workers)
    return found, refused


def rule_ratio(dsn: str, users: int) -> dict[str, Any]:
    """The statement of a home with its rule, and the same one that shows everybody everything, by turns."""
    queries = resources.files("ingress") / "queries" / "social"
    ruled, build = ((queries / f"{name}.sql").read_text() for name in ("timeline_home", "home_build"))
    if ruled.count(_RULE) != 1:
        raise ValueError("timeline_home.sql does not ask the rule as this benchmark knows it")
    texts = {"with": ruled, "without": ruled.replace(_RULE, "true")}
    count = ingress_limits.PAGE_LIMIT_DEFAULT + social_limits.TIMELINE_MARGINS[0]
    took = dict.fromkeys(texts, 0.0)
    chance = random.Random(1)
    with psycopg.connect(dsn, autocommit=True, options=_SESSION, prepare_threshold=0) as connection:
        for viewer in [name_of(n) for n in chance.sample(range(users), min(users, _VIEWERS))]:
            asked = {"viewer": viewer, "at": NEWEST[0], "id": NEWEST[1], "count": count}
            places = connection.execute(build.encode(), asked).fetchall()
            given = asked | {
                "times": [at for at, _ in places],
                "ids": [post_id for _, post_id in places],
                "since": places[-1][0] if len(places) == count else OLDEST[0],
            }
            for _ in range(_ROUNDS):
                for name, text in texts.items():
                    took[name] += timed_ms(lambda text=text, given=given: connection.execute(text.encode(), given))  # type: ignore[misc]
    each = min(users, _VIEWERS) * _ROUNDS
    return {
        "home_sql_ms": round(took["with"] / each, 3),
        "home_sql_without_rule_ms": round(took["without"] / each, 3),
        **at_most("rule_ratio", took["with"] / took["without"], _RULE_GOAL),
    }
