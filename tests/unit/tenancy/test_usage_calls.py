"""What is asked and sent over the routes of usage, without a server: spans that are told, events that a record holds."""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from dataflows.tenancy.billing.invoicing import pause_s
from ingress import limits as ingress_limits
from ingress.tenancy.usage.questions import Questions
from ingress.tenancy.usage.routes import letters
from ingress.tenancy.usage.sums import WINDOWS, Asked, Usage, bounds, fraction_of, require_span
from schemas import errors
from schemas.tenancy import limits
from schemas.tenancy.instants import parsed
from schemas.tenancy.value_types import time_zone
from tests.worlds.desk_world import an_event

NOW_US = 1_790_000_000_000_000
DAY_US = 86_400 * 1_000_000


@pytest.mark.parametrize(
    ("begins", "ends", "field"),
    [
        (NOW_US, NOW_US, "to"),
        (NOW_US - 401 * DAY_US, NOW_US - DAY_US, "from"),
        (NOW_US - 399 * DAY_US, NOW_US + 2 * DAY_US, "to"),
        (NOW_US + DAY_US, NOW_US + 400 * DAY_US + 1, "to"),
        (parsed("9999-12-31T00:00:00Z"), parsed("9999-12-31T12:00:00Z"), "to"),
    ],
)
def test_a_span_that_is_told_of_nothing_is_refused(begins: int, ends: int, field: str) -> None:
    with pytest.raises(errors.InvalidCommand) as refused:
        require_span(Asked("tokens", begins, ends, "day", None, "UTC"), NOW_US)
    assert [one["field"] for one in refused.value.errors] == [field]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Honolulu"])
def test_every_span_that_is_told_has_windows(zone: str) -> None:
    for begins, ends in ((NOW_US - 400 * DAY_US, NOW_US), (NOW_US, NOW_US + 400 * DAY_US)):
        for window in WINDOWS[3:]:
            asked_for = Asked("tokens", begins, ends, window, None, zone)
            require_span(asked_for, NOW_US)
            assert [bounds(asked_for)[at] for at in (0, -1)] == [begins, ends]


def test_an_event_that_no_record_holds_is_refused_and_nothing_of_its_batch_is_sent() -> None:
    """Kafka would refuse it each time that it is sent again."""
    small, large = an_event("small", 1), an_event("large", 1) | {"note": "x" * limits.USAGE_EVENT_BYTES_MAX}
    assert len(letters("tn_1", [small], is_batch=True)) == 1
    with pytest.raises(errors.TooLarge):
        letters("tn_1", [small, large], is_batch=True)
    with pytest.raises(errors.TooLarge):
        letters("tn_1", [large], is_batch=False)


def test_a_percentile_is_the_value_of_its_number_and_not_the_one_behind() -> None:
    """As ``percentile_disc`` finds it: the product of two floats, rounded up."""
    for values in (1, 2, 3, 7, 50, 100, 101, 200, 10_000, 100_000, 999_999_900):
        found = [math.ceil(fraction_of(percent) * values) for percent in range(1, 101)]
        assert found == [-(-percent * values // 100) for percent in range(1, 101)]


@pytest.mark.parametrize("name", ["localtime", "Factory", "posixrules", "right/UTC", "posix/Europe/Berlin", "Europe"])
def test_a_tenant_has_no_zone_that_its_usage_is_not_told_by(name: str) -> None:
    assert time_zone(name) is not None
    assert time_zone("Europe/Berlin") is None


def test_looks_for_runs_that_are_due_take_a_twentieth_of_the_time_at_most() -> None:
    assert [pause_s(looked_s) for looked_s in (0.0, 0.02, 1.0)] == [0.5, 0.5, 19.0]
    assert pause_s(11.0) == 20.0, "it stood still: every invoice would wait for minutes"


def test_who_asks_for_much_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one tenant two questions are under way, of all four: the pool of a process has twice as many connections."""
    monkeypatch.setattr(ingress_limits, "STORE_POOL_WAIT_S", 0)
    asked_for = Asked("tokens", NOW_US, NOW_US + DAY_US, "day", None, "UTC")

    async def answered(*_: Any) -> list[Any]:
        return []

    async def ask() -> None:
        questions = Questions()
        usage = Usage(SimpleNamespace(rows=answered), None, questions)  # type: ignore[arg-type] # all that is asked of them
        async with AsyncExitStack() as under_way:
            for tenant in ("busy", "busy", "other"):
                await under_way.enter_async_context(questions.turn(tenant))
            with pytest.raises(errors.Overloaded):
                await usage.sums("busy", asked_for)
            assert (await usage.sums("third", asked_for))["data"] == []
            await under_way.enter_async_context(questions.turn("other"))
            with pytest.raises(errors.Overloaded):
                await usage.sums("third", asked_for)
        assert (await usage.sums("busy", asked_for))["data"] == []

    asyncio.run(ask())
