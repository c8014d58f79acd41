"""Maintenance as one ingress process knows it: nothing before it was read, the last word while Postgres is out."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from ingress import limits as ingress_limits
from ingress.http import problems
from ingress.payments.active_policies import ActivePolicies
from schemas import errors, limits, services
from schemas.operators import maintenance
from schemas.payments import operations
from schemas.payments.policies import kinds
from tests.each import each

if TYPE_CHECKING:
    from ingress.http.store import Store

ON = ("maintenance", 1, kinds.canonical("maintenance", {"on": True, "reason": "disks"}, ()))
OFF = ("maintenance", 2, kinds.canonical("maintenance", {"on": False, "reason": "done"}, ()))


class Published:
    """What the query finds; None when Postgres is out."""

    def __init__(self) -> None:
        self.active: list[tuple[str, int, str]] | None = []

    async def rows(self, query: str, parameters: dict[str, str]) -> list[tuple[Any, ...]]:
        assert query == "policies_active"
        if self.active is None:
            raise errors.Unavailable
        known = json.loads(parameters["known"])
        return [(kind, version, None if known.get(kind) == version else body) for kind, version, body in self.active]


@pytest.fixture
def published() -> Published:
    return Published()


@pytest.fixture
def active(published: Published) -> ActivePolicies:
    return ActivePolicies(cast("Store", published))


def test_no_new_work_is_taken_before_the_policies_were_read(active: ActivePolicies, published: Published) -> None:
    published.active = None
    with pytest.raises(errors.Unavailable):
        asyncio.run(active.refresh())
    with pytest.raises(errors.Unavailable) as unknown:
        active.require_new_work()
    assert unknown.value.code == "unavailable"
    published.active = []
    asyncio.run(active.refresh())
    active.require_new_work()


def test_the_last_word_holds_while_nothing_newer_can_be_read(active: ActivePolicies, published: Published) -> None:
    published.active = [ON]
    asyncio.run(active.refresh())
    for told in (None, [ON], [("maintenance", 2, '{"on": "of a newer build"}')]):
        published.active = told
        try:
            asyncio.run(active.refresh())
        except errors.Unavailable:
            assert told is None
        with pytest.raises(errors.Maintenance):
            active.require_new_work()
    published.active = [("maintenance", 3, OFF[2])]
    asyncio.run(active.refresh())
    active.require_new_work()


def test_callers_hear_when_to_come_back_and_not_why() -> None:
    assert problems.headers_of("maintenance")["Retry-After"] == str(ingress_limits.MAINTENANCE_RETRY_AFTER_S)
    assert problems.headers_of("unavailable")["Retry-After"] == str(ingress_limits.RETRY_AFTER_S)
    problem = json.loads(problems.of_error(errors.Maintenance()))
    assert (problem["status"], problem["code"], problem["type"]) == (
        503,
        "maintenance",
        "urn:millrace:problem:maintenance",
    )
    assert "disks" not in problem["detail"]


@each(
    ("document", "field"),
    [
        ({}, ""),
        ({"on": True}, ""),
        ({"on": "true", "reason": "x"}, "on"),
        ({"on": True, "reason": ""}, "reason"),
        ({"on": True, "reason": "x" * (limits.TEXT_LENGTH_MAX + 1)}, "reason"),
        ({"on": True, "reason": "4242 4242 4242 4242"}, "reason"),
        ({"on": True, "reason": "x\x00"}, "reason"),
        ({"on": True, "reason": "x", "merchant": "m_1"}, "merchant"),
    ],
)
def test_what_is_no_switch_is_not_published(document: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidCommand) as refused:
        kinds.canonical("maintenance", document, ())
    assert [fault["field"] for fault in refused.value.errors] == [field]


def test_what_is_stored_is_read_again_as_it_was() -> None:
    assert maintenance.read(ON[2]) == maintenance.Maintenance(on=True, reason="disks")
    narrower = '{"on": true, "reason": "x", "merchants": ["m_1"]}'
    assert maintenance.read(narrower).on, "of a newer build: too much is refused, never too little"


def test_it_is_the_merchants_commands_that_stop() -> None:
    """Facts and operators have no scope of merchants: freezes, reserves, reviews, outcomes, publications go on."""
    operated = {o.name: o for o in services.OPERATIONS.values() if o.service in ("payments", "limiter")}
    stopped = {o.name for o in operated.values() if o.scope in operations.OF_MERCHANTS}
    assert {"create_payment_intent", "confirm_payment_intent", "create_refund", "create_payout"} <= stopped
    going_on = operated.keys() - stopped
    assert going_on == {
        *("record_attempt_outcome", "expire_authorization", "record_dispute", "record_settlement_line", "post_journal"),
        *("record_payout_outcome", "review_payment_intent", "hold_reserve", "release_reserve", "convert_currency"),
        "allow_payout_destination",
        *("freeze_account", "unfreeze_account", "publish_policy", "withdraw_policy", "consume_quota", "refund_quota"),
    }
