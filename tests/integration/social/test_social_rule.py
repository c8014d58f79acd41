"""The rule of who sees a post is part of each statement that shows posts: no function is called, nothing planned anew."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
_QUERIES = resources.files("ingress") / "queries" / "social"
_SHOWING = sorted(entry.name.removesuffix(".sql") for entry in _QUERIES.iterdir() if "social_sees" in entry.read_text())


def plan_of(stack: World, name: str) -> str:
    """The generic plan, as a connection of the ingress keeps it."""
    names: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = re.sub(r"%\((\w+)\)s", numbered, (_QUERIES / f"{name}.sql").read_text())
    with psycopg.connect(stack.addresses.postgres_superuser_dsn) as connection:
        rows = connection.execute(f"explain (generic_plan) {text}".encode(), prepare=False).fetchall()
    return "\n".join(line for (line,) in rows)


@pytest.mark.parametrize("name", _SHOWING)
def test_the_rule_is_written_into_the_statement(stack: World, name: str) -> None:
    plan = plan_of(stack, name)
    assert "block_pkey" in plan or "on block" in plan
    assert "social_" not in plan.replace("social_words", ""), plan


def test_every_timeline_asks_the_rule() -> None:
    wanted = {entry.name.removesuffix(".sql") for entry in _QUERIES.iterdir() if entry.name.startswith("timeline_")}
    assert wanted | {"posts_shown", "post_versions", "post_counts"} <= set(_SHOWING)
