"""What ``millrace bench social`` measures, each figure beside its goal: 1 of a goal is the goal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from compose.proof.bench.social.fan_out import FanOutBench
from compose.proof.bench.social.graph import edges, load_graph
from compose.proof.bench.social.media import renditions, uploads
from compose.proof.bench.social.people import People
from compose.proof.bench.social.reads import read_homes, rule_ratio
from compose.settings.processes import processes_default

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compose.proof.kit.own_stack import OwnStack


def measure(
    stack: OwnStack,
    *,
    graph: Path | None,
    stored: int,
    followers: int,
    posts: int,
    seconds: float,
    told: Callable[[str], None],
) -> dict[str, Any]:
    """Every figure, on a stack of its own."""
    people, dsn = People(stack), stack.settings.addresses().postgres_superuser_dsn
    found: dict[str, Any] = {"cores": processes_default()}
    with psycopg.connect(dsn, autocommit=True) as connection:
        told("fan-out")
        found["fan_out"] = FanOutBench(stack, people, connection).run(followers, posts)
        told("media")
        found["media"] = uploads(people, stack) | renditions()
        told("writing a network")
        pairs = edges(graph)
        users = load_graph(connection, pairs, stored)
    told("reading homes")
    size = {"graph": graph.name if graph else "made", "users": users, "follows": 2 * len(pairs), "posts": stored}
    found["home"] = size | read_homes(people, stack, users, seconds) | rule_ratio(dsn, users)
    return found
